#include "common/net/leader_channel.h"

#include "common/base/status.h"
#include "common/net/status.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;

absl::Status Unreachable() { return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "refused"); }

TEST(LeaderChannel, GoesWhereNotLeaderSays) {
  LeaderChannel leader({"a:1", "b:1"});
  auto first = leader.Current();
  EXPECT_EQ(first.address, "a:1");
  EXPECT_THAT(leader.Learn("a:1", NotLeader("c:1")), HasReason("NOT_LEADER"));
  EXPECT_EQ(leader.Current().address, "c:1");
  EXPECT_NE(leader.Current().channel, first.channel);
}

TEST(LeaderChannel, WhoDoesNotAnswerOrNamesNobodyIsLeftForTheNextOfTheList) {
  LeaderChannel leader({"a:1", "b:1"});
  (void)leader.Learn("a:1", Unreachable());
  EXPECT_EQ(leader.Current().address, "b:1");
  (void)leader.Learn("b:1", NotLeader(""));
  EXPECT_EQ(leader.Current().address, "a:1");
  (void)leader.Learn("a:1", NotLeader("c:1"));
  (void)leader.Learn("c:1", Unreachable());  // the named one died: back to the list
  EXPECT_EQ(leader.Current().address, "b:1");
}

TEST(LeaderChannel, TwoCallsThatFailTogetherMoveItOnce) {
  LeaderChannel leader({"a:1", "b:1", "c:1"});
  (void)leader.Learn("a:1", Unreachable());
  (void)leader.Learn("a:1", Unreachable());
  EXPECT_EQ(leader.Current().address, "b:1");
}

TEST(LeaderChannel, AnAnswerOfTheLeaderKeepsIt) {
  LeaderChannel leader({"a:1", "b:1"});
  auto first = leader.Current();
  EXPECT_OK(leader.Learn("a:1", absl::OkStatus()));
  (void)leader.Learn("a:1", MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "r"));
  (void)leader.Learn("a:1", MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", "etcd"));
  EXPECT_EQ(leader.Current().channel, first.channel);
}

TEST(LeaderChannel, OnlyWhatAnotherMayDoIsWorthAnotherTry) {
  LeaderChannel several({"a:1", "b:1"}), one({"a:1"});
  EXPECT_TRUE(several.ElsewhereMayDo(Unreachable()));
  EXPECT_FALSE(one.ElsewhereMayDo(Unreachable()));
  EXPECT_TRUE(one.ElsewhereMayDo(NotLeader("b:1")));
  EXPECT_FALSE(several.ElsewhereMayDo(MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "r")));
}

TEST(LeaderChannel, AddressesAreParsedOrNamedAsWrong) {
  EXPECT_EQ(ParseAddresses("a:1,[::1]:2").value(), (std::vector<std::string>{"a:1", "[::1]:2"}));
  for (const char* bad : {"", "a", "a:1,", ",a:1", "a:1,b"}) EXPECT_THAT(ParseAddresses(bad), HasReason("BAD_ARGUMENT")) << bad;
}

}  // namespace
}  // namespace riskkv
