// CODED beside RISK: whose profile is used, and what a coded request may still do.
#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

using CodedJobTest = ManagerTest;

// Two ways to be lossy, each with profiles of its own in one set.
SetInfo WithCoded(SetInfo set) {
  set.profiles.push_back({.name = "coded-0.002",
                          .epsilon = 0.002,
                          .gated = true,
                          .first_exact = 4,
                          .last_exact = 36,
                          .coded = true,
                          .coded_token_bytes = 3000,
                          .end_token_bytes = 12000});
  set.profiles.push_back({.name = "coded-0.005",
                          .epsilon = 0.005,
                          .gated = true,
                          .first_exact = 4,
                          .last_exact = 36,
                          .coded = true,
                          .coded_token_bytes = 2000,
                          .end_token_bytes = 12000});
  set.profiles.push_back({.name = "coded-wild",
                          .gated = false,
                          .first_exact = 4,
                          .last_exact = 36,
                          .coded = true,
                          .coded_token_bytes = 100,
                          .end_token_bytes = 12000});
  return set;
}

TEST_F(CodedJobTest, CodedUsesTheGatedProfileThatSendsLeastAndFallsBackToFull) {
  for (const char* id : {"A", "B"}) GiveSet(id, WithCoded(Set()));
  JobSpec spec = Spec();
  spec.mode = Mode::kCoded;
  EXPECT_THAT(manager_->StartJob(spec), HasReason("LOSSY_NOT_ALLOWED"));
  spec.allow_lossy = true;
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    if (args.mode != Mode::kCoded) return GoodMove(stream, args);
    stream.Say(MigrationState::kPrecopy,
               MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", "coded block: checksum differs"));
    stream.End(absl::OkStatus());
  };
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kSucceeded);
  EXPECT_EQ(job.outcome->mode, Mode::kFull);
  ASSERT_EQ(job.attempts.size(), 2u);
  EXPECT_EQ(job.attempts[0].mode, Mode::kCoded);
  EXPECT_EQ(job.attempts[0].profile, "coded-0.005");
  EXPECT_EQ(job.attempts[1].profile, "");
}

TEST_F(CodedJobTest, ProfilesAreOfOneLossyModeOnly) {
  for (const char* id : {"A", "B"}) GiveSet(id, WithCoded(Set()));
  JobSpec spec = Spec();
  spec.allow_lossy = true;
  spec.mode = Mode::kCoded;
  spec.profile = "large";
  EXPECT_THAT(manager_->StartJob(spec), HasReason("UNKNOWN_PROFILE"));
  spec.mode = Mode::kRisk;
  spec.profile = "coded-0.002";
  EXPECT_THAT(manager_->StartJob(spec), HasReason("UNKNOWN_PROFILE"));
  spec.mode = Mode::kCoded;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.outcome->mode, Mode::kCoded);
  EXPECT_EQ(job.outcome->profile, "coded-0.002");
  EXPECT_EQ(store_->Counters(kSetMovesPrefix).value().at(SetMovesCounter("set1")), 1);
}

TEST_F(CodedJobTest, ACodedRequestIsNotRebuiltByTheOtherMode) {
  for (const char* id : {"A", "B"}) GiveSet(id, WithCoded(Set()));
  RequestInfo info = Request(1);
  info.provenance = {{{0, 900}, "set1", "coded-0.002"}};
  api_.SetRequest(info);
  JobSpec spec = Spec();
  spec.mode = Mode::kAuto;
  spec.allow_lossy = true;
  spec.must_move = true;
  ASSERT_OK_AND_ASSIGN(Plan plan, manager_->MakePlan(spec));
  EXPECT_FALSE(plan.Find(Mode::kRisk)->possible);
  EXPECT_TRUE(plan.Find(Mode::kCoded)->possible) << plan.Find(Mode::kCoded)->why_not;
  spec.mode = Mode::kCoded;
  EXPECT_EQ(RunJob(spec).outcome->profile, "coded-0.002") << "not the one that sends less";
}

}  // namespace
}  // namespace riskkv::coordinator
