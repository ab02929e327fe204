// protocol.md, 3: a client that reads slowly, goes away and comes back, attaches twice or starts anew gets every token once, while its
// request moves to and fro.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/faults/cell.h"

namespace riskkv::faults {
namespace {

class ClientRulesTest : public ::testing::Test {
 protected:
  void SetUp() override { scene_.Begin(); }

  void Move(int number) {
    auto record = scene_.cluster.disk.store.GetOwner(scene_.request_id);
    const uint64_t epoch = record.ok() ? record->epoch : 1;
    const std::string to = record.ok() && record->owner.id == "b" ? "a" : "b";
    const std::string id = "move" + std::to_string(number);
    ASSERT_TRUE(scene_.StartJob(id, number % 2 == 0 ? Mode::kFull : Mode::kRisk, epoch, to, absl::Seconds(10)).ok());
    ASSERT_TRUE(Cluster::Eventually(
        [&] {
          auto job = scene_.Record(id);
          return job.ok() && IsTerminal(job->state);
        },
        kPatience));
    EXPECT_EQ(scene_.Record(id)->state, MigrationState::kSucceeded) << scene_.Record(id)->outcome->error;
    last_ = id;
  }
  void ExpectEveryTokenOnce() {
    std::vector<std::string> violations;
    scene_.CheckAfter(last_, violations);
    for (const std::string& v : violations) ADD_FAILURE() << v;
  }

  Scene scene_;
  std::string last_;
};

TEST_F(ClientRulesTest, ComesBackWhileTheRequestMoves) {
  for (int i = 0; i < 4; ++i) {
    scene_.TheClient()->Disconnect(absl::Milliseconds(5 * i));
    Move(i);
  }
  ExpectEveryTokenOnce();
}

TEST_F(ClientRulesTest, AttachesTwiceBeforeAndAfterEachMove) {
  for (int i = 0; i < 4; ++i) {
    scene_.TheClient()->AttachTwice();
    Move(i);
    scene_.TheClient()->AttachTwice();
  }
  ExpectEveryTokenOnce();
}

TEST_F(ClientRulesTest, StartsAnewAndGetsEverythingFromTheFirstIndex) {
  Move(0);
  scene_.ReplaceClient();
  Move(1);
  Cluster::Eventually([&] { return scene_.TheClient()->received() > 50; }, kPatience);
  EXPECT_EQ(scene_.TheClient()->tokens().front(), Oracle().front());
  ExpectEveryTokenOnce();
}

// The log is the queue: the request is moved, ends and is delivered to a client that is far behind.
TEST_F(ClientRulesTest, ReadsSlowly) {
  scene_.TheClient()->Stop();  // two at a time would supersede each other
  auto slow = std::make_shared<Client>(&scene_.cluster, scene_.cluster.NewProcess("slow"),
                                       ClientTerms{scene_.request_id, "", {}, ThePrompt(), absl::Milliseconds(3)});
  for (int i = 0; i < 2; ++i) Move(i);
  Cluster::Eventually([&] { return slow->received() >= 40; }, kPatience);
  const std::vector<Token> got = slow->tokens();
  ASSERT_GE(got.size(), 40u);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), Oracle().begin()));
  EXPECT_EQ(slow->Lost(), 0);
  EXPECT_EQ(slow->Duplicated(), 0);
  slow->Stop();
}

}  // namespace
}  // namespace riskkv::faults
