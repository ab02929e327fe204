// Random predictor sets and caches, and the oracle: the method in double precision, one plain loop after the other,
// with its own index arithmetic (nothing of rope.h).
#ifndef RISKKV_KERNELS_TESTS_PROBLEM_H_
#define RISKKV_KERNELS_TESTS_PROBLEM_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace riskkv::kernels::test {

// A set with its own storage. Weights are N(0, 1 / d_in), so that results are about one.
struct TestSet {
  TestSet(int n_head_kv, int head_dim, RopeParams rope, WeightType type, uint32_t seed);
  TestSet(const TestSet&) = delete;

  // Appends a group with these layers and random weights.
  void AddGroup(std::vector<int> anchors, std::vector<int> targets);
  // A A T T A A from layer 4g: the paper's layout.
  void AddPaperGroups(int count);

  int kv() const { return view.n_head_kv * view.head_dim; }
  int d_in(int group) const { return 2 * kv() * static_cast<int>(view.groups[group].anchors.size()); }
  int d_out(int group) const { return 2 * kv() * static_cast<int>(view.groups[group].targets.size()); }
  // The stored weights as numbers, whatever their type.
  double B(int group, int row, int column) const;
  double Bias(int group, int column) const;
  void SetB(int group, int row, int column, float value);

  PredictorSetView view;

 private:
  std::vector<uint8_t> Random(std::size_t n, double scale);
  WeightType type_;
  std::mt19937 random_;
  std::vector<std::vector<uint8_t>> b_, bias_;
};

// The rows of one job: random anchors, targets filled with a pattern that no result has.
struct TestRows {
  TestRows(const TestSet& set, int group, std::vector<int32_t> positions, uint32_t seed);

  // Tokens [begin, end) as a job. The job points into this object.
  RebuildJob Job(SetHandle handle, int begin, int end);
  RebuildJob Job(SetHandle handle) { return Job(handle, 0, n_tokens()); }
  int n_tokens() const { return static_cast<int>(positions.size()); }
  void Scrub();  // the targets back to the pattern

  int group;
  int kv;
  std::vector<int32_t> positions;
  std::vector<std::vector<uint16_t>> anchor_k, anchor_v, target_k, target_v;
};

// first, first + 1, ...
std::vector<int32_t> Positions(int first, int count);

// The oracle's rows: [target][K|V] then [token][kv].
std::vector<std::vector<double>> Oracle(const TestSet& set, const TestRows& rows);

// How far the targets are from the oracle's: |got - want| minus half an fp16 step of want, the largest of all.
double MaxError(const TestSet& set, const TestRows& rows);

// The largest difference between the targets of two rebuilds of the same rows.
double MaxDifference(const TestRows& a, const TestRows& b);

// The oracles' rotation: one row of keys, head by head, by direction * theta.
void TurnKeys(const RopeParams& rope, int n_head, int head_dim, double position, double direction, double* row);

RopeParams Rope(RopePairing pairing, int rotary_dim, float base = 10000.0f);

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_PROBLEM_H_
