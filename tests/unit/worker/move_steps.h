// The steps of a move between two managers, as a test takes them.
#ifndef RISKKV_TESTS_UNIT_WORKER_MOVE_STEPS_H_
#define RISKKV_TESTS_UNIT_WORKER_MOVE_STEPS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {

// The request as FINAL would carry it.
inline IncomingRequest Incoming(const RequestSnapshot& s) { return {s.id, s.params, s.prompt, s.log, s.provenance}; }

// Copies cells [from, to) in blocks.
inline void Copy(TestWorker& a, TestWorker& b, const std::string& id, ReservationId reservation, int64_t from, int64_t to, int64_t block = 16) {
  const KvLayout& layout = a.manager->facts().fingerprint.layout;
  for (int64_t at = from; at < to; at += block) {
    auto cells = a.manager->Export(id, {at, std::min(at + block, to)}, AllLayers(layout));
    ASSERT_OK(cells);
    ASSERT_OK(b.manager->Append(reservation, *cells));
  }
}

// Pauses on `a` and installs on `b`.
inline void Prepare(TestWorker& a, TestWorker& b, const std::string& id) {
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, a.manager->Pause(id));
  EXPECT_EQ(paused.state, RequestState::kPaused);
  EXPECT_EQ(paused.n_kv, paused.n_tokens() - 1);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(paused.n_kv + 8));
  Copy(a, b, id, r, 0, paused.n_kv);
  EXPECT_EQ(b.manager->ReservedLength(r), paused.n_kv);
  ASSERT_OK(b.manager->Install(r, Incoming(paused)));
  b.manager->Release(r);  // taken over: nothing to release
  EXPECT_EQ(b.StateOf(id), RequestState::kIncoming);
}

inline MoveTarget To(const char* worker, uint64_t epoch, int64_t next_index) {
  return {worker, "127.0.0.1:1", "mig", epoch, next_index};
}

inline std::vector<Token> Unmoved(RequestParams params, std::vector<Token> prompt) {
  TestWorker w;
  return w.Generate(std::move(params), std::move(prompt)).ids();
}

}  // namespace riskkv::worker::testing

#endif  // RISKKV_TESTS_UNIT_WORKER_MOVE_STEPS_H_
