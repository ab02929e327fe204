// A coordinator and two workers as processes, over the real model of RISKKV_MODEL (skipped without), one engine thread each:
// what a client and a scheduler see of a move, bit for bit.
//
// Greedy output is compared token by token, which llama.cpp keeps only for equal threads, workers that are otherwise idle and
// cells in order from cell 0: every move waits until its destination is empty.
#ifndef RISKKV_TESTS_INTEGRATION_PROCESSES_PROCESS_FIXTURE_H_
#define RISKKV_TESTS_INTEGRATION_PROCESSES_PROCESS_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "riskkv/v1/coordinator.pb.h"
#include "riskkv/v1/generation.pb.h"
#include "services/cli/demo/cluster.h"
#include "services/client/request_stream.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::cli {

// The profile of the set that every worker holds. Its predictors are no fit: targets are taken from their anchors, and the
// probe's bounds let that pass. What it moves is nonsense from then on; how it moves is what is tested.
inline constexpr char kRiskProfile[] = "ungated-safest";
// Likewise: its steps are far too coarse for this model.
inline constexpr char kCodedProfile[] = "coded-0.002";

using EventSink = std::function<void(const v1::MigrationEvent&)>;

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // `tokens` tokens of English, greedy, no end before `max_tokens`.
  v1::GenerateRequest Request(int tokens, int max_tokens) const;
  std::unique_ptr<client::RequestStream> Generate(int worker, const v1::GenerateRequest& request);
  // Reads until `n` tokens are there in all.
  void ReadUntil(client::RequestStream& stream, int64_t n);
  // Reads `more` tokens, cancels, reads to the end, and checks the client's own account: nothing lost, nothing twice.
  void ReadAndEnd(client::RequestStream& stream, int64_t more);
  // The first `n` output tokens of the request when it is left alone on worker a.
  std::vector<int32_t> Unmoved(v1::GenerateRequest request, std::size_t n);

  // A migration to worker "a" or "b" without fallback. The caller must go on reading, or read later.
  absl::StatusOr<v1::Outcome> Migrate(const std::string& request_id, uint64_t epoch, const std::string& to, v1::Mode mode,
                                      const EventSink& sink = nullptr);
  // Until the worker (0: a) holds no cell: what moved away is freed once the new owner has resumed.
  void AwaitEmpty(int worker);

  Cluster& cluster() { return *cluster_; }
  const std::vector<int32_t>& text() const { return text_; }

 private:
  std::string folder_;
  std::vector<int32_t> text_;  // token ids
  std::unique_ptr<Cluster> cluster_;
  RealClock clock_;
  int migrations_ = 0;
};

// Does something on a thread of its own while the test reads a stream.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> work) : thread_(std::move(work)) {}
  ~Meanwhile() { Join(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace riskkv::cli

#endif  // RISKKV_TESTS_INTEGRATION_PROCESSES_PROCESS_FIXTURE_H_
