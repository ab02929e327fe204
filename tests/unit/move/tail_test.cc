// The final copy, whatever its length; and what a second lossy move does to what the first one rebuilt.
#include "tests/unit/move/move_fixture.h"

namespace riskkv::worker::testing {
namespace {

constexpr int kTailPrompt = 305;
constexpr int kTailOutput = 200;  // so that it runs yet when it is paused

// A move by hand, so that the tail is as long as it is said: everything before it is sent while nothing is decoded.
class TailTest : public MoveTest {
 protected:
  void SetUp() override { Build(FastEngine(1500), FastEngine()); }

  FinalRequest FinalOf(const RequestSnapshot& s, const Fence& fence) {
    FinalRequest f;
    f.fence = fence;
    f.n_tokens = s.n_tokens();
    f.n_kv = s.n_kv;
    f.params = s.params;
    f.prompt = s.prompt;
    f.log = s.log;
    f.digest = TokensDigest(s.prompt, s.log);
    return f;
  }

  // The request's id; paused at one of its first tokens.
  std::string AdmitPaused(RequestSnapshot& paused) {
    const std::string id = Admit(kTailPrompt, kTailOutput);
    EXPECT_TRUE(Eventually([&] { return a_->manager->BeginMove(id, 1).ok(); })) << "the prompt is being prefilled until then";
    auto snapshot = a_->manager->Pause(id);
    EXPECT_OK(snapshot);
    if (snapshot.ok()) paused = *std::move(snapshot);
    return id;
  }

  void MoveWithTail(int64_t tail, std::vector<Token>& output) {
    RequestSnapshot paused;
    const std::string id = AdmitPaused(paused);
    const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "tail" + std::to_string(tail));
    ASSERT_OK(Reserve(*a_, *b_, p));
    SendTerms terms;
    terms.fence = p.fence;
    terms.policy.layout = a_->manager->facts().fingerprint.layout;
    terms.policy.mode = MoveMode::kFull;
    LocalPeer peer(b_->incoming.get(), &b_->wire);
    Cancellation cancel;
    RoundSender sender(terms, a_->manager.get(), &peer, &cancel);
    ASSERT_OK_AND_ASSIGN(RoundSample body, sender.Send(paused, paused.n_kv - tail, paused.n_kv, /*last=*/false));
    ASSERT_OK(sender.Settle(body));
    ASSERT_OK_AND_ASSIGN(const RoundSample last, sender.Send(paused, paused.n_kv, paused.n_kv, /*last=*/true));
    ASSERT_EQ(last.cells, tail);
    ASSERT_EQ(last.bytes, tail * terms.policy.layout.bytes_per_token()) << "the final copy holds the tail and nothing else";
    ASSERT_OK(peer.Final(FinalOf(paused, p.fence), &cancel));
    output = Output(*b_, id);
    ASSERT_OK(a_->manager->MarkMoved(id, {"b", "b", p.fence.migration_id, 2, paused.output_tokens}));
    a_->manager->FreeMoved(id);
  }
};

// The fake engine's next token is a hash over every byte of its cache.
TEST_F(TailTest, FullChangesNoTokenWhateverTheTail) {
  const std::vector<Token> want = Unmoved(kTailPrompt, kTailOutput);
  for (int64_t tail = 0; tail <= 300; ++tail) {
    SCOPED_TRACE(tail);
    std::vector<Token> got;
    ASSERT_NO_FATAL_FAILURE(MoveWithTail(tail, got));
    ASSERT_EQ(got, want);
    ASSERT_TRUE(Eventually([&] { return b_->incoming->active() == 0; }));
  }
  ExpectIdle();
}

// Design.md, 5: provenance travels, so that rebuilt rows are rebuilt from the same anchors again, never sent or rebuilt from rebuilt ones.
TEST_F(MoveTest, ASecondRiskMoveLeavesRebuiltRowsBitIdentical) {
  Build(FastEngine(1500), FastEngine(1500));
  digest_ = a_->AddSet(1.05f);  // within the probe's bounds, and different from the native rows
  ASSERT_EQ(b_->AddSet(1.05f), digest_);
  const std::vector<int> layers = AllLayers(a_->manager->facts().fingerprint.layout);
  const std::string id = Admit(600, 2000);
  AwaitTokens(*a_, id, 602);
  ASSERT_OK_AND_ASSIGN(const KvBlock native, a_->manager->Export(id, {0, 600}, layers));
  const Outcome there = Move(*a_, *b_, id, MoveMode::kRisk, "m1");
  ASSERT_OK(there.failed);
  ASSERT_EQ(there.last, MoveState::kResumed);
  ASSERT_EQ(b_->manager->Get(id)->provenance.size(), 1u);
  const TokenRange rebuilt = b_->manager->Get(id)->provenance[0].range;
  ASSERT_GE(rebuilt.size(), 400);
  ASSERT_OK_AND_ASSIGN(const KvBlock first, b_->manager->Export(id, rebuilt, layers));
  ASSERT_OK_AND_ASSIGN(const KvBlock before, Slice(native, {rebuilt.begin, 440}, layers));
  ASSERT_OK_AND_ASSIGN(const KvBlock after, Slice(first, {rebuilt.begin, 440}, layers));
  ASSERT_NE(before.Digest(), after.Digest()) << "the predictor is wrong on purpose";
  const Outcome back = Move(*b_, *a_, id, MoveMode::kRisk, "m2");
  ASSERT_OK(back.failed);
  ASSERT_EQ(back.last, MoveState::kResumed);
  ASSERT_OK_AND_ASSIGN(const KvBlock second, a_->manager->Export(id, rebuilt, layers));
  EXPECT_EQ(second.Digest(), first.Digest());
  ASSERT_OK(a_->manager->Cancel(id));
  ExpectIdle();
}

}  // namespace
}  // namespace riskkv::worker::testing
