// The owner of a request is lost for good, and its client holds all there is of it.
#include <atomic>

#include "tests/integration/client/request_stream_fixture.h"

namespace riskkv::client {
namespace {

// protocol.md, 3: whoever holds prompt and received tokens gives the request a new owner, and takes nothing of lower epochs from there on.
class RecoverTest : public RequestStreamTest {
 protected:
  void SetUp() override {
    coordinator_.SetOwner("a", a_.address(), 1, 0);
    a_.OnGenerate([](Script& s, const Attach&) {
      s.Started(1);
      s.Tokens(0, 3, 1);
      return absl::UnavailableError("the worker died");
    });
    a_.OnAttach({Away()});
    b_.OnAttach({[](Script& s, const Attach&) {
      s.Tokens(3, 6, 2);
      s.Finished(6, 2);
      return absl::OkStatus();
    }});
    options_.coordinator = coordinator_.address();
    options_.backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(5);
    options_.max_attempts = 3;
  }
  static ScriptedWorker::Play Away() {
    return [](Script&, const Attach&) { return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "nobody is there"); };
  }
  static absl::Status LeaseHolds() {
    return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_OWNER", "it holds its lease: attach to it");
  }
  std::unique_ptr<RequestStream> WithTokens() {
    v1::GenerateRequest request;
    for (int id : {7, 8, 9}) request.mutable_tokens()->add_ids(id);
    request.mutable_sampling()->set_seed(5);
    request.mutable_stop()->set_max_tokens(6);
    return RequestStream::Generate(a_.address(), request, options_, &clock_);
  }
  ScriptedCoordinator coordinator_;
  StreamOptions options_;
  std::atomic<int> asked_{0};
};

TEST_F(RecoverTest, AnOwnerThatIsLostForGoodIsReplacedWithWhatTheClientHolds) {
  v1::RecoverRequest last;
  coordinator_.OnRecover([&](const v1::RecoverRequest& request) {
    if (++asked_ < 8) return LeaseHolds();  // for longer than max_attempts
    last = request;
    coordinator_.SetOwner("b", b_.address(), 2, 3);
    return absl::OkStatus();
  });
  auto stream = WithTokens();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 6);
  EXPECT_EQ(stream->recoveries(), 1);
  EXPECT_EQ(result.moved, 1);
  EXPECT_EQ(last.request_id(), "r-1");
  EXPECT_EQ(last.epoch(), 1u);
  EXPECT_EQ(last.prompt_size(), 3);
  ASSERT_EQ(last.log_size(), 3);
  EXPECT_EQ(last.log(2).index(), 2);
  EXPECT_EQ(last.log(2).token(), 102);
  EXPECT_EQ(last.log(2).text(), "<2>");
  EXPECT_EQ(last.sampling().seed(), 5u);
  EXPECT_EQ(last.stop().max_tokens(), 6);
  EXPECT_EQ(b_.attaches().at(0).min_epoch(), 2u);
  EXPECT_EQ(b_.attaches().at(0).next_index(), 3);
}

TEST_F(RecoverTest, EveryStreamIsClosedBeforeTheCall) {
  std::atomic<bool> held{false}, closed{false};
  a_.OnGenerate([&](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 3, 1);
    s.Moving("b", b_.address());
    while (!held) s.Sleep(absl::Milliseconds(1));
    return absl::UnavailableError("the worker died");
  });
  b_.OnAttach({[&](Script& s, const Attach&) {  // the candidate waits for the decision
                 held = true;
                 s.Hold();
                 closed = true;
                 return absl::OkStatus();
               },
               [](Script& s, const Attach&) {
                 s.Tokens(3, 6, 2);
                 s.Finished(6, 2);
                 return absl::OkStatus();
               }});
  coordinator_.OnRecover([&](const v1::RecoverRequest&) {
    for (int i = 0; i < 5000 && !closed; ++i) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_TRUE(closed) << "a stream of before is open";
    coordinator_.SetOwner("b", b_.address(), 2, 3);
    return absl::OkStatus();
  });
  auto stream = WithTokens();
  ExpectUnbroken(*stream, Drain(*stream), 6);
}

TEST_F(RecoverTest, AnOwnerThatComesBackIsAttachedToAsEver) {
  a_.OnAttach({Away(), Away(), Away(), [](Script& s, const Attach&) {
                 s.Tokens(3, 6, 1);
                 s.Finished(6, 1);
                 return absl::OkStatus();
               }});
  coordinator_.OnRecover([&](const v1::RecoverRequest&) {
    ++asked_;
    return LeaseHolds();
  });
  auto stream = WithTokens();
  ExpectUnbroken(*stream, Drain(*stream), 6);
  EXPECT_GE(asked_, 1);
  EXPECT_EQ(stream->recoveries(), 0);
  EXPECT_EQ(stream->merger().epoch(), 1u);
}

// It may have been carried out: tokens of the old epoch that were taken now would be another history than the new owner's.
TEST_F(RecoverTest, AfterALostAnswerNothingOfTheEpochIsTaken) {
  a_.OnAttach({Away(), Away(), [](Script& s, const Attach&) {
                 s.Tokens(3, 6, 1);  // it lives after all
                 s.Hold();
                 return absl::OkStatus();
               }});
  coordinator_.OnRecover([&](const v1::RecoverRequest& request) {
    EXPECT_EQ(request.log_size(), 3);
    if (++asked_ < 3) return absl::UnavailableError("the answer was lost");
    coordinator_.SetOwner("b", b_.address(), 2, 3);
    return asked_ == 3 ? absl::UnavailableError("this one, too") : absl::OkStatus();
  });
  auto stream = WithTokens();
  ExpectUnbroken(*stream, Drain(*stream), 6);
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(stream->merger().epoch(), 2u);
  EXPECT_EQ(a_.attaches().size(), 2u);
}

TEST_F(RecoverTest, PatienceEnds) {
  options_.recover_patience = absl::Milliseconds(200);
  coordinator_.OnRecover([](const v1::RecoverRequest&) { return LeaseHolds(); });
  auto stream = WithTokens();
  Result result = Drain(*stream);
  EXPECT_THAT(result.status, HasReason("PEER_UNREACHABLE"));
  EXPECT_EQ(result.text, Text(3));
}

TEST_F(RecoverTest, WhoHoldsNoPromptTokensDoesNotAsk) {
  coordinator_.OnRecover([&](const v1::RecoverRequest&) {
    ++asked_;
    return absl::OkStatus();
  });
  auto stream = Generate(options_);  // its prompt is text
  EXPECT_THAT(Drain(*stream).status, HasReason("PEER_UNREACHABLE"));
  EXPECT_EQ(asked_, 0);
}

}  // namespace
}  // namespace riskkv::client
