#include "common/migration/record_json.h"

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

JobRecord Full() {
  JobRecord job;
  job.spec = {.migration_id = "m1", .request_id = "b-1", .expected_epoch = 3, .source = "A", .destination = "B",
              .mode = Mode::kRisk, .allow_lossy = true, .predictor_set = "s", .profile = "p", .max_pause_ms = 5,
              .deadline_ms = 6, .on_failure = OnFailure::kReplay, .reason = "DRAIN", .must_move = true, .allow_ungated = true,
              .traceparent = "t"};
  job.body_digest = BodyDigest(job.spec);
  job.state = MigrationState::kFailed;
  job.source = {"A", "ba", "a:1"};
  job.destination = {"B", "bb", "b:1"};
  absl::Status error = MakeError(absl::StatusCode::kDataLoss, "VERIFY_GATE", "layer 3: 0.5 is above 0.1");
  error = WithContext(error, "destination", "REBUILT");
  job.attempts.push_back({.attempt = 1, .mode = Mode::kRisk, .predictor_set = "s", .profile = "p", .epoch = 3, .source = job.source,
                          .destination = job.destination, .leader_term = 4, .decision = Decision::kRolledBack, .new_epoch = 5,
                          .start_index = 6, .error = error});
  Plan plan;
  plan.chosen = Mode::kRisk;
  plan.alternatives = {{.mode = Mode::kFull, .possible = true, .why_not = "slow", .total_seconds = 1.5, .pause_seconds = 0.1,
                        .bytes = 77, .terms = {{"rtt_s", 0.25}}}};
  plan.inputs = {{"bandwidth", 1e8}};
  Outcome outcome;
  outcome.state = MigrationState::kFailed;
  outcome.owner = "A";
  outcome.error = error;
  outcome.stats.omitted_layers = {2, 3};
  uint64_t seq = 0;
  auto event = [&](EventDetail detail) {
    job.events.push_back({.seq = ++seq, .state = MigrationState::kPlanned, .attempt = 1, .epoch = 3,
                          .time = absl::FromUnixNanos(123456789), .elapsed_ms = 1.25, .detail = std::move(detail)});
  };
  event({});
  event(plan);
  event(RoundDone{.round = 2, .frontier = 128, .n_tokens = 130, .bytes = 9, .seconds = 0.5});
  event(PausedAt{.n_tokens = 5, .remaining_cells = 6, .predicted_pause_ms = 7});
  event(MoveStats{.bytes_sent = 5, .omitted_layers = {1}, .encode_ms = 2, .decode_ms = 3, .tokens_coded = 4});
  event(Fallback{.from = Mode::kRisk, .to = Mode::kFull, .why = error});
  event(outcome);
  job.outcome = outcome;
  job.accepted_at = absl::FromUnixNanos(1);
  job.updated_at = absl::FromUnixNanos(2);
  return job;
}

TEST(RecordJson, JobGoesThereAndBack) {
  JobRecord job = Full();
  std::string text = Serialise(job);
  ASSERT_OK_AND_ASSIGN(JobRecord back, ParseJobRecord(text, "job m1"));
  EXPECT_EQ(Serialise(back), text);
  EXPECT_EQ(ReasonOf(back.attempts[0].error), "VERIFY_GATE");
  EXPECT_EQ(GetDetail(back.outcome->error)->stage, "REBUILT");
  EXPECT_EQ(std::get<Plan>(back.events[1].detail).alternatives[0].terms.at("rtt_s"), 0.25);
}

TEST(RecordJson, OwnerGoesThereAndBack) {
  OwnerRecord owner;
  owner.request_id = "b-1";
  owner.owner = {"A", "ba", "a:1"};
  owner.epoch = 1ull << 60;
  owner.open = OpenAttempt{.migration_id = "m", .attempt = 2, .destination = {"B", "bb", "b:1", "outside:1"}, .leader_term = 3};
  owner.cancelled = true;
  owner.resumed = false;
  std::string text = Serialise(owner);
  ASSERT_OK_AND_ASSIGN(OwnerRecord back, ParseOwnerRecord(text, "x"));
  EXPECT_EQ(Serialise(back), text);
  EXPECT_EQ(back.open->destination.boot_id, "bb");
  EXPECT_EQ(back.open->destination.for_clients(), "outside:1");
  EXPECT_EQ(back.owner.for_clients(), "a:1") << "no address for clients: the same";
}

TEST(RecordJson, CorruptRecordsAreNamed) {
  std::string good = Serialise(Full());
  for (std::size_t cut = 0; cut < good.size(); cut += 97) {
    auto parsed = ParseJobRecord(good.substr(0, cut), "job m1");
    EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job m1")));
    EXPECT_THAT(parsed, HasReason("CORRUPT_FILE"));
  }
  for (const char* bad : {"null", "[]", "{}", R"({"format":2,"request_id":"x","owner":{},"epoch":1})",
                          R"({"format":1,"request_id":5,"owner":{},"epoch":1})", R"({"format":1,"request_id":"x","owner":{}})"}) {
    EXPECT_THAT(ParseOwnerRecord(bad, "owner x"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("owner x"))) << bad;
  }
}

TEST(RecordJson, AbsentKeysKeepDefaultsAndUnknownOnesAreIgnored) {
  ASSERT_OK_AND_ASSIGN(OwnerRecord owner,
                       ParseOwnerRecord(R"({"format":1,"request_id":"x","owner":{"id":"A"},"epoch":2,"new_thing":[1]})", "x"));
  EXPECT_TRUE(owner.resumed);
  EXPECT_EQ(owner.owner.id, "A");
}

TEST(BodyDigest, LeavesDeadlineAndTraceOut) {
  JobSpec spec = Full().spec;
  std::string digest = BodyDigest(spec);
  spec.deadline_ms = 99;
  spec.traceparent = "other";
  EXPECT_EQ(BodyDigest(spec), digest);
  spec.max_pause_ms = 1;
  EXPECT_NE(BodyDigest(spec), digest);
}

}  // namespace
}  // namespace riskkv
