// Owner records go when nobody can ask for them any more.
#include "services/coordinator/core/owner_pruner.h"

#include "tests/unit/coordinator/restart_fixture.h"

namespace riskkv::coordinator {
namespace {

class OwnerPrunerTest : public RestartTest {
 protected:
  // As after a move that ended: the record, and for a while its job.
  void Moved(absl::Duration retention) {
    options_.retention = retention;
    api_.on_get = [this](const WorkerName& worker, const std::string& id) -> absl::StatusOr<RequestInfo> {
      const bool held = worker.id == "A" ? !source_ended_ : !ended_;
      if (!held) return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", id);
      return Request(Owner().epoch);
    };
    Restart();
    ASSERT_EQ(RunJob(Spec()).state, MigrationState::kSucceeded);
    ASSERT_TRUE(Kept());
    source_ended_ = true;
  }
  // Half a minute each, in which the housekeeping looks once.
  void Rounds(int n) {
    for (int i = 0; i < n; ++i) {
      Pass(absl::Seconds(31), alive_);
      absl::SleepFor(absl::Milliseconds(60));
    }
  }
  bool Kept() { return store_->GetOwner(kRequest).ok(); }
  bool GoesEventually() {
    return Eventually([&] {
      Rounds(1);
      return !Kept();
    });
  }
  std::vector<std::string> alive_ = {"A", "B", "C"};
  std::atomic<bool> ended_{false};         // B knows the request no more
  std::atomic<bool> source_ended_{false};  // nor does A
};

TEST_F(OwnerPrunerTest, ARecordStaysWhileAJobRefersToIt) {
  Moved(absl::Hours(1));
  ended_ = true;
  Rounds(2);
  EXPECT_TRUE(Kept());
}

TEST_F(OwnerPrunerTest, ARecordGoesWhenItsRequestHasEndedAndItsJobIsGone) {
  Moved(absl::Seconds(60));
  EXPECT_TRUE(Eventually([&] {
    Rounds(1);
    return absl::IsNotFound(store_->GetJob("m1").status());
  }));
  Rounds(3);
  EXPECT_TRUE(Kept()) << "B still holds the request";
  ended_ = true;
  Rounds(1);
  EXPECT_TRUE(Kept()) << "its client may be about to recover it";
  EXPECT_TRUE(GoesEventually());
}

// It may be in doubt still, and would be told that nobody knows of its attempt.
TEST_F(OwnerPrunerTest, ARecordStaysWhileTheOwnerBeforeHoldsTheRequest) {
  Moved(absl::Seconds(60));
  source_ended_ = false;
  ended_ = true;
  EXPECT_TRUE(Eventually([&] {
    Rounds(1);
    return absl::IsNotFound(store_->GetJob("m1").status());
  }));
  Rounds(4);
  EXPECT_TRUE(Kept());
  source_ended_ = true;
  EXPECT_TRUE(GoesEventually());
}

TEST_F(OwnerPrunerTest, ALostOwnersRecordStaysForItsClientToRecover) {
  Moved(absl::Seconds(120));
  alive_ = {"A", "C"};
  EXPECT_TRUE(Eventually([&] {
    Rounds(1);
    return absl::IsNotFound(store_->GetJob("m1").status());
  }));
  Rounds(1);
  EXPECT_TRUE(Kept());
  EXPECT_TRUE(GoesEventually());
}

}  // namespace
}  // namespace riskkv::coordinator
