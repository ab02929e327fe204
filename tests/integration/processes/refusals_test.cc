// Moves that do not happen: each is a typed error that names the thing, and the source goes on serving.
#include <atomic>

#include "fmt/format.h"
#include "tests/integration/processes/process_fixture.h"

namespace riskkv::cli {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class RefusalsTest : public ProcessTest {
 protected:
  // The outcome of a RISK move that must fail, the request staying on a.
  v1::Outcome Refused(const std::string& id, const EventSink& sink = nullptr) {
    auto outcome = Migrate(id, 1, "b", v1::MODE_RISK, sink);
    EXPECT_OK(outcome.status());
    if (!outcome.ok()) return {};
    EXPECT_NE(outcome->state(), v1::MIGRATION_STATE_SUCCEEDED);
    EXPECT_EQ(outcome->owner(), "a") << outcome->ShortDebugString();
    EXPECT_EQ(outcome->epoch(), 1u);
    EXPECT_FALSE(outcome->error().in_doubt());
    return *outcome;
  }
};

TEST_F(RefusalsTest, TheSourceGoesOnAndEveryErrorNamesTheThing) {
  const v1::GenerateRequest request = Request(300, 2500);
  auto stream = Generate(0, request);
  ASSERT_NO_FATAL_FAILURE(ReadUntil(*stream, 2));
  const std::string id = stream->request_id();

  const std::string nobody = id.substr(0, id.rfind('-')) + "-0123456789abcdef";
  auto unknown = Migrate(nobody, 1, "b", v1::MODE_RISK);
  EXPECT_THAT(unknown.status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(nobody)));
  EXPECT_THAT(unknown.status(), HasReason("UNKNOWN_REQUEST"));

  unknown = Migrate(id, 1, "c", v1::MODE_RISK);
  EXPECT_THAT(unknown.status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'c'")));
  EXPECT_THAT(unknown.status(), HasReason("UNKNOWN_WORKER"));

  // The destination has promised its cells to a request of its own.
  auto filler = Generate(1, Request(4, 3500));
  ASSERT_NO_FATAL_FAILURE(ReadUntil(*filler, 1));
  const v1::Outcome full = Refused(id);
  EXPECT_EQ(full.error().reason(), v1::NO_BLOCKS) << full.ShortDebugString();
  EXPECT_EQ(full.error().side(), v1::SIDE_DESTINATION);
  ASSERT_NO_FATAL_FAILURE(ReadAndEnd(*filler, 0));
  AwaitEmpty(1);

  // It dies with the room reserved.
  std::atomic<bool> killed{false};
  const v1::Outcome gone = Refused(id, [&](const v1::MigrationEvent& event) {
    if (event.state() >= v1::MIGRATION_STATE_RESERVED && !killed.exchange(true)) cluster().Kill(1);
  });
  EXPECT_TRUE(killed);
  EXPECT_EQ(gone.error().reason(), v1::PEER_UNREACHABLE) << gone.ShortDebugString();

  ASSERT_NO_FATAL_FAILURE(ReadAndEnd(*stream, 16));
  EXPECT_TRUE(stream->log().OwnerChanges().empty());
  const std::vector<int32_t> got = stream->log().Tokens();
  EXPECT_EQ(got, Unmoved(request, got.size()));
  fmt::print("the source produced {} tokens meanwhile\n", got.size());
}

}  // namespace
}  // namespace riskkv::cli
