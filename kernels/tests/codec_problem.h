// Random codecs and caches, and the oracle of the coded transforms: double precision, plain loops, its own index
// arithmetic.
#ifndef RISKKV_KERNELS_TESTS_CODEC_PROBLEM_H_
#define RISKKV_KERNELS_TESTS_CODEC_PROBLEM_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/codec_backend.h"

namespace riskkv::kernels::test {

struct CodecSize {
  int n_layer, n_head_kv, head_dim;
};

// A codec with its own storage: pairs of layers, K and V together or (split) apart, each predicted from up to two units
// before; random orthogonal rotations, predictors that keep coordinates about one.
struct TestCodec {
  TestCodec(CodecSize size, RopeParams rope, bool split, uint32_t seed);
  TestCodec(const TestCodec&) = delete;

  int kv() const { return view.n_head_kv * view.head_dim; }
  int units() const { return static_cast<int>(view.units.size()); }
  int width(int u) const { return kv() * static_cast<int>(view.units[u].planes.size()); }
  int from(int u) const;
  std::size_t cells(int n_tokens) const { return 2 * static_cast<std::size_t>(view.n_layer) * n_tokens * kv(); }

  CodecView view;
  std::vector<float> mean, scale;
  std::vector<std::vector<float>> rotation, predictor;

 private:
  void AddUnit(std::vector<CodecPlane> planes);
  std::mt19937 random_;
};

// One block: cells as a cache has them, levels and steps.
struct TestBlock {
  TestBlock(const TestCodec& codec, int64_t first, int n_tokens, std::vector<float> steps, uint32_t seed);

  CodecBlock Block(CodecHandle handle) const;
  std::vector<int32_t*> Levels();
  std::vector<const int32_t*> Levels() const;
  // Tokens [begin, end) with their cells and levels.
  TestBlock Part(const TestCodec& codec, int begin, int end) const;
  Status Quantise(CodecBackend& backend, CodecHandle handle);
  Status Reconstruct(CodecBackend& backend, CodecHandle handle);

  int64_t first;
  int n_tokens;
  std::vector<float> steps;
  std::vector<uint16_t> cells;
  std::vector<std::vector<int32_t>> levels;  // by unit, [width, n_tokens], empty where not coded
};

// What the levels mean and what they should be, given the levels before: a backend's differ in last bits, and the
// oracle follows it there.
struct CodecOracle {
  // z, y and P of every unit, [n_tokens][width].
  std::vector<std::vector<double>> z, y, p;
  // Decoded cells before their rounding, as cells.
  std::vector<double> decoded;
};

// `exact` holds the cells that were quantised: y comes from them, and z of exact units.
CodecOracle RunCodecOracle(const TestCodec& codec, const TestBlock& exact);

// The largest distance of a level from the threshold it should be within, in steps: 0 when every level is right.
double LevelError(const TestCodec& codec, const TestBlock& block, const CodecOracle& oracle);

// The largest distance of a cell of units that are not exact from the oracle's, beyond the rounding to fp16.
double CellError(const TestCodec& codec, const TestBlock& block, const CodecOracle& oracle);

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_CODEC_PROBLEM_H_
