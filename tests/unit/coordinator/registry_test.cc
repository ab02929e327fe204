#include "services/coordinator/core/worker_registry.h"

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "services/coordinator/core/profile_choice.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkerInfo Worker(const std::string& id, std::vector<SetInfo> sets = {}) {
  WorkerInfo info;
  info.name = {.id = id, .boot_id = "boot" + id, .address = id + ":1"};
  info.fingerprint.architecture = "llama";
  info.sets = std::move(sets);
  return info;
}

SetInfo Set(const std::string& digest, const std::string& architecture = "llama") {
  SetInfo set;
  set.digest = digest;
  set.fingerprint.architecture = architecture;
  return set;
}

TEST(WorkerRegistry, LeasesRunOutAndAreRenewed) {
  FakeClock clock;
  WorkerRegistry registry(&clock, absl::Seconds(10));
  ASSERT_OK(registry.Register(Worker("A")));
  clock.Advance(absl::Seconds(9));
  EXPECT_OK(registry.FindAlive("A"));
  ASSERT_OK(registry.Renew({.worker_id = "A", .boot_id = "bootA", .load = {.running = 4}}));
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(registry.FindAlive("A")->load.running, 4);
  clock.Advance(absl::Seconds(2));
  EXPECT_THAT(registry.FindAlive("A"), HasReason("PEER_UNREACHABLE"));
  EXPECT_OK(registry.Find("A"));
  EXPECT_THAT(registry.Find("B"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'B'")));
  ASSERT_OK(registry.Renew({.worker_id = "A", .boot_id = "bootA"}));  // it is back
  EXPECT_OK(registry.FindAlive("A"));
}

TEST(WorkerRegistry, PresenceTellsUnknownFromGone) {
  FakeClock clock;
  WorkerRegistry registry(&clock, absl::Seconds(10));
  WorkerName a = Worker("A").name;
  EXPECT_EQ(registry.PresenceOf(a), Presence::kUnknown);  // the coordinator just started
  clock.Advance(absl::Seconds(11));
  EXPECT_EQ(registry.PresenceOf(a), Presence::kGone);
  ASSERT_OK(registry.Register(Worker("A")));
  EXPECT_EQ(registry.PresenceOf(a), Presence::kAlive);
  WorkerInfo rebooted = Worker("A");
  rebooted.name.boot_id = "bootA2";
  ASSERT_OK(registry.Register(rebooted));
  EXPECT_EQ(registry.PresenceOf(a), Presence::kGone);
  EXPECT_THAT(registry.Renew({.worker_id = "A", .boot_id = "bootA"}), HasReason("UNKNOWN_WORKER"));
  EXPECT_FALSE(registry.FindBoot("bootA").has_value());
  EXPECT_TRUE(registry.FindBoot("bootA2").has_value());
}

TEST(WorkerRegistry, RenewalsNameSets) {
  FakeClock clock;
  WorkerRegistry registry(&clock, absl::Seconds(10));
  ASSERT_OK(registry.Register(Worker("A", {Set("s1"), Set("s2")})));
  EXPECT_FALSE(registry.Renew({.worker_id = "A", .boot_id = "bootA", .set_digests = {"s2"}}).value());
  EXPECT_FALSE(registry.FindAlive("A")->Holds("s1"));
  EXPECT_TRUE(registry.Renew({.worker_id = "A", .boot_id = "bootA", .set_digests = {"s2", "s3"}}).value());
  registry.UpdateSets(Worker("A").name, {Set("s2"), Set("s3")});
  EXPECT_FALSE(registry.Renew({.worker_id = "A", .boot_id = "bootA", .set_digests = {"s2", "s3"}}).value());
}

TEST(WorkerRegistry, NamelessWorkersAreRefused) {
  FakeClock clock;
  WorkerRegistry registry(&clock, absl::Seconds(10));
  WorkerInfo info = Worker("A");
  info.name.boot_id.clear();
  EXPECT_THAT(registry.Register(info), HasReason("BAD_ARGUMENT"));
}

class ProfileChoiceTest : public ::testing::Test {
 protected:
  ProfileChoiceTest() {
    good_.profiles = {{.name = "exact", .gated = true},
                      {.name = "some", .omitted_layers = {2}, .gated = true},
                      {.name = "most", .omitted_layers = {2, 3}, .gated = true},
                      {.name = "all", .omitted_layers = {2, 3, 6, 7}, .gated = false}};
    other_.profiles = {{.name = "most", .omitted_layers = {1, 2, 3, 4, 5}, .gated = true}};
  }
  absl::StatusOr<ProfileChoice> Choose(const ProfileWish& wish, std::vector<ProvenanceInfo> provenance = {}) {
    WorkerInfo a = Worker("A", {good_}), b = Worker("B", {other_});
    return ChooseProfile(wish, a, b, {a, b}, provenance);
  }
  SetInfo good_ = Set("good");
  SetInfo other_ = Set("other", "qwen2");  // of another model: ignored
};

TEST_F(ProfileChoiceTest, TheGatedOneThatOmitsMost) {
  ASSERT_OK_AND_ASSIGN(ProfileChoice choice, Choose({}));
  EXPECT_EQ(choice.profile.name, "most");
  EXPECT_EQ(choice.set.digest, "good");
  EXPECT_TRUE(choice.source_holds);
  EXPECT_FALSE(choice.destination_holds);
  EXPECT_THAT(choice.holders, ElementsAre("A:1"));
  EXPECT_EQ(Choose({.allow_ungated = true})->profile.name, "most");
}

TEST_F(ProfileChoiceTest, NamedOnes) {
  EXPECT_EQ(Choose({.profile = "some"})->profile.name, "some");
  EXPECT_THAT(Choose({.profile = "all"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("allow_ungated")));
  EXPECT_EQ(Choose({.profile = "all", .allow_ungated = true})->profile.name, "all");
  EXPECT_THAT(Choose({.profile = "what"}), HasReason("UNKNOWN_PROFILE"));
  EXPECT_THAT(Choose({.predictor_set = "other"}), HasReason("PREDICTOR_MISSING"));
}

TEST_F(ProfileChoiceTest, UngatedOnlyWhenNothingIsGated) {
  for (ProfileInfo& profile : good_.profiles) profile.gated = false;
  EXPECT_THAT(Choose({}), HasReason("PREDICTOR_MISSING"));
  EXPECT_EQ(Choose({.allow_ungated = true})->profile.name, "all");
}

TEST_F(ProfileChoiceTest, ARebuiltRequestKeepsItsProfile) {
  std::vector<ProvenanceInfo> rebuilt = {{.range = {0, 50}}, {.range = {50, 90}, .predictor_set = "good", .profile = "all"}};
  EXPECT_EQ(Choose({}, rebuilt)->profile.name, "all");
  EXPECT_THAT(Choose({.profile = "most"}, rebuilt), HasReason("PREDICTOR_STALE"));
}

}  // namespace
}  // namespace riskkv::coordinator
