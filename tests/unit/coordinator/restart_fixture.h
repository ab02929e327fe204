// A coordinator that ends, and another one that goes on from its records.
#ifndef RISKKV_TESTS_UNIT_COORDINATOR_RESTART_FIXTURE_H_
#define RISKKV_TESTS_UNIT_COORDINATOR_RESTART_FIXTURE_H_

#include <string>
#include <vector>

#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {

class RestartTest : public ManagerTest {
 protected:
  // What a coordinator leaves that ended with the job in `state`, before its first attempt.
  JobRecord Early(MigrationState state, double elapsed_ms = 5) {
    JobRecord record;
    record.spec = Spec();
    record.body_digest = BodyDigest(record.spec);
    record.state = state;
    record.source = Worker("A", "bootA").name;
    record.destination = Worker("B", "bootB").name;
    record.accepted_at = record.updated_at = clock_.Now();
    record.events = {{.seq = 1, .state = state, .attempt = 1, .epoch = 1, .elapsed_ms = elapsed_ms}};
    return record;
  }
  void StartWith(const JobRecord& record, const std::vector<std::string>& registered = {"A", "B", "C"}) {
    StopManager();
    ASSERT_OK(store_->Commit({.job = record}));
    OpenStore();
    registry_ = std::make_unique<WorkerRegistry>(&clock_, absl::Seconds(10));
    for (const std::string& id : registered) Register(id);
    StartManager();
  }
  // Of a backup that was taken while the attempt was open: B owns the request now, at epoch 2.
  void RestartOnAnOlderStore(MigrationState at_source) {
    UpToFinalAndWait();
    StopManager();
    RequestInfo at_b = Request(2);
    at_b.start_index = 22;
    api_.SetRequest(at_b);
    api_.on_query = [at_source](const Fence&) -> absl::StatusOr<AttemptInfo> { return AttemptInfo{.known = true, .state = at_source}; };
    Restart();
  }
  // As the destination does: again and again, while the source is asked.
  DecisionReply PreparedOnceAsked() {
    return Ask([this] { return manager_->Prepared(fence_, 22); });
  }
  int Rounds(const JobRecord& job) {
    int rounds = 0;
    for (const JobEvent& event : job.events) rounds += std::holds_alternative<RoundDone>(event.detail);
    return rounds;
  }
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_TESTS_UNIT_COORDINATOR_RESTART_FIXTURE_H_
