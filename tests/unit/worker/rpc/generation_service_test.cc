// The Generation service through a real (in-process) channel.
#include "services/worker/rpc/generation_service.h"

#include <thread>

#include "common/net/status.h"
#include "services/worker/rpc/request_convert.h"
#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

class GenerationTest : public ::testing::Test {
 protected:
  void Serve(FakeOptions options = {}) {
    worker = std::make_unique<TestWorker>(options);
    service = std::make_unique<GenerationService>(worker->manager.get(), "A");
    grpc::ServerBuilder builder;
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    stub = v1::Generation::NewStub(server->InProcessChannel({}));
  }
  void TearDown() override {
    if (!server) return;
    worker->manager->Stop();
    server->Shutdown();
  }
  static v1::GenerateRequest Text(const std::string& prompt, int max_tokens) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    request.mutable_stop()->set_max_tokens(max_tokens);
    return request;
  }
  struct Result {
    std::vector<v1::GenerateEvent> events;
    absl::Status status;
    std::string text() const {
      std::string out;
      for (const auto& e : events) out += e.token().text() + e.finished().tail_text();
      return out;
    }
    std::vector<Token> ids() const {
      std::vector<Token> out;
      for (const auto& e : events) {
        if (e.has_token()) out.push_back(e.token().token());
      }
      return out;
    }
  };
  static Result Drain(grpc::ClientReader<v1::GenerateEvent>& reader) {
    Result result;
    v1::GenerateEvent event;
    while (reader.Read(&event)) result.events.push_back(event);
    result.status = FromGrpc(reader.Finish());
    return result;
  }
  Result Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    auto reader = stub->Generate(&context, request);
    return Drain(*reader);
  }
  Result Attach(const std::string& id, int64_t from, uint64_t min_epoch = 0) {
    grpc::ClientContext context;
    v1::AttachRequest request;
    request.set_request_id(id);
    request.set_next_index(from);
    request.set_min_epoch(min_epoch);
    auto reader = stub->Attach(&context, request);
    return Drain(*reader);
  }

  std::unique_ptr<TestWorker> worker;
  std::unique_ptr<GenerationService> service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::Generation::Stub> stub;
};

TEST_F(GenerationTest, StartedTokensFinished) {
  Serve();
  const Result r = Generate(Text("hello", 5));
  ASSERT_OK(r.status);
  ASSERT_EQ(r.events.size(), 7u);
  const v1::Started& started = r.events[0].started();
  EXPECT_EQ(started.worker_id(), "A");
  EXPECT_EQ(started.epoch(), 1u);
  EXPECT_EQ(started.prompt_tokens(), 6) << "begin-of-text and five bytes";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(r.events[static_cast<std::size_t>(i) + 1].token().index(), i);
  EXPECT_EQ(r.events.back().finished().reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(r.events.back().finished().output_tokens(), 5);
  EXPECT_FALSE(r.events.back().finished().has_error());
  EXPECT_EQ(r.text().size(), 5u);
}

TEST_F(GenerationTest, TextTokensAndChatAreTheSameRequest) {
  Serve();
  const auto by_text = Generate(Text("hi", 8)).ids();
  v1::GenerateRequest tokens;
  for (int id : {256, int{'h'}, int{'i'}}) tokens.mutable_tokens()->add_ids(id);
  tokens.mutable_stop()->set_max_tokens(8);
  EXPECT_EQ(Generate(tokens).ids(), by_text);
  v1::GenerateRequest chat;
  chat.mutable_chat()->set_user("hi");
  chat.mutable_stop()->set_max_tokens(8);
  EXPECT_EQ(Generate(chat).ids(), by_text);
}

TEST_F(GenerationTest, ErrorsNameFieldAndValue) {
  Serve();
  auto refused = [&](const v1::GenerateRequest& request, const std::string& says) {
    const Result r = Generate(request);
    EXPECT_TRUE(r.events.empty());
    EXPECT_THAT(r.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
    EXPECT_THAT(r.status, HasReason("BAD_ARGUMENT"));
  };
  refused(v1::GenerateRequest(), "one of prompt, tokens and chat");
  refused(Text("", 5), "prompt is empty");
  refused(Text("x", -5), "max_tokens is -5");
  v1::GenerateRequest request;
  request.mutable_tokens();
  request.mutable_stop()->set_max_tokens(1);
  refused(request, "tokens.ids is empty");
  request.mutable_tokens()->add_ids(77777);
  refused(request, "77777");
  request = Text("x", 5);
  request.mutable_sampling()->set_top_p(1.5f);
  refused(request, "top_p is 1.5");
  request = Text("x", 5);
  request.mutable_chat()->set_user("");
  refused(request, "chat.user is empty");
}

TEST_F(GenerationTest, TooLongForTheCells) {
  FakeOptions options;
  options.n_cells = 32;
  Serve(options);
  const Result r = Generate(Text("hello", 100));
  EXPECT_THAT(r.status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("32")));
  EXPECT_THAT(r.status, HasReason("NO_BLOCKS"));
}

TEST_F(GenerationTest, DetachedThenAttached) {
  Serve();
  v1::GenerateRequest request = Text("hello", 6);
  request.set_detached(true);
  const Result started = Generate(request);
  ASSERT_OK(started.status);
  ASSERT_EQ(started.events.size(), 1u);
  const std::string id = started.events[0].started().request_id();
  ASSERT_TRUE(Eventually([&] { return worker->manager->Get(id)->output_tokens >= 2; }));
  const Result r = Attach(id, 2);
  ASSERT_OK(r.status);
  EXPECT_EQ(r.ids().size(), 4u);
  EXPECT_EQ(r.events[0].token().index(), 2);
}

TEST_F(GenerationTest, ABrokenStreamOnlyDetaches) {
  Serve(Slow());
  std::string id;
  {
    grpc::ClientContext context;
    auto reader = stub->Generate(&context, Text("hello", 200));
    v1::GenerateEvent event;
    ASSERT_TRUE(reader->Read(&event));
    id = event.started().request_id();
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
  }
  const Result r = Attach(id, 0);
  EXPECT_EQ(r.ids().size(), 200u);
  EXPECT_EQ(r.events.back().finished().reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(GenerationTest, UnknownRequestsAreNamed) {
  Serve();
  EXPECT_THAT(Attach("nope", 0).status, HasReason("UNKNOWN_REQUEST"));
  grpc::ClientContext c1, c2, c3;
  v1::CancelRequest cancel;
  cancel.set_request_id("nope");
  v1::CancelReply cancelled;
  EXPECT_THAT(FromGrpc(stub->Cancel(&c1, cancel, &cancelled)), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nope")));
  v1::GetRequestRequest get;
  v1::RequestInfo info;
  EXPECT_THAT(FromGrpc(stub->GetRequest(&c2, get, &info)), HasReason("UNKNOWN_REQUEST"));
  v1::AcknowledgeRequest ack;
  v1::AcknowledgeReply acked;
  EXPECT_THAT(FromGrpc(stub->Acknowledge(&c3, ack, &acked)), HasReason("UNKNOWN_REQUEST"));
}

TEST_F(GenerationTest, GetListCancelAcknowledge) {
  Serve(Slow());
  v1::GenerateRequest request = Text("hello", 5000);
  request.set_detached(true);
  request.mutable_sampling()->set_grammar("root ::= [a-z]*");
  request.mutable_sampling()->set_logprobs(2);
  request.mutable_stop()->add_stop("never");
  const std::string id = Generate(request).events[0].started().request_id();
  ASSERT_TRUE(Eventually([&] { return worker->StateOf(id) == RequestState::kDecoding; }));
  grpc::ClientContext c1, c2, c3, c4;
  v1::GetRequestRequest get;
  get.set_request_id(id);
  v1::RequestInfo info;
  ASSERT_TRUE(stub->GetRequest(&c1, get, &info).ok());
  EXPECT_EQ(info.state(), v1::REQUEST_STATE_DECODING);
  EXPECT_EQ(info.worker_id(), "A");
  EXPECT_EQ(info.prompt_tokens(), 6);
  EXPECT_EQ(info.max_tokens(), 5000);
  EXPECT_EQ(info.sampling().grammar(), "root ::= [a-z]*") << "what a destination must be able to go on with";
  EXPECT_EQ(info.sampling().logprobs(), 2);
  ASSERT_EQ(info.stop().stop_size(), 1);
  v1::ListRequestsReply list;
  ASSERT_TRUE(stub->ListRequests(&c2, {}, &list).ok());
  ASSERT_EQ(list.requests_size(), 1);
  EXPECT_EQ(list.requests(0).request_id(), id);
  EXPECT_FALSE(list.requests(0).has_sampling());
  v1::CancelRequest cancel;
  cancel.set_request_id(id);
  v1::CancelReply cancelled;
  ASSERT_TRUE(stub->Cancel(&c3, cancel, &cancelled).ok());
  EXPECT_TRUE(cancelled.was_running());
  EXPECT_EQ(Attach(id, 0).events.back().finished().reason(), v1::FINISH_REASON_CANCELLED);
  v1::AcknowledgeRequest ack;
  ack.set_request_id(id);
  v1::AcknowledgeReply acked;
  ASSERT_TRUE(stub->Acknowledge(&c4, ack, &acked).ok());
  ASSERT_TRUE(Eventually([&] {
    worker->clock.Advance(absl::Milliseconds(60));  // it may still have been ending
    return !worker->manager->Get(id).ok();
  }));
  EXPECT_THAT(Attach(id, 0).status, HasReason("UNKNOWN_REQUEST"));
}

TEST_F(GenerationTest, CancelDoesNotWaitForTheDecision) {
  Serve(Slow());
  v1::GenerateRequest request = Text("hello", 5000);
  request.set_detached(true);
  const std::string id = Generate(request).events[0].started().request_id();
  ASSERT_TRUE(Eventually([&] { return worker->StateOf(id) == RequestState::kDecoding; }));
  ASSERT_OK(worker->manager->BeginMove(id, 1));
  ASSERT_OK(worker->manager->Pause(id));
  grpc::ClientContext context;
  v1::CancelRequest cancel;
  cancel.set_request_id(id);
  v1::CancelReply reply;
  EXPECT_OK(FromGrpc(stub->Cancel(&context, cancel, &reply)));
  EXPECT_TRUE(reply.was_running());
  EXPECT_EQ(worker->StateOf(id), RequestState::kPaused);
  ASSERT_OK(worker->manager->ResumeHere(id));
  EXPECT_TRUE(Eventually([&] { return worker->StateOf(id) == RequestState::kFinished; }));
}

TEST_F(GenerationTest, MovingMovedAndSuperseded) {
  Serve(Slow());
  v1::GenerateRequest request = Text("hello", 5000);
  request.set_detached(true);
  const std::string id = Generate(request).events[0].started().request_id();
  grpc::ClientContext context;
  v1::AttachRequest attach;
  attach.set_request_id(id);
  auto first = stub->Attach(&context, attach);
  v1::GenerateEvent event;
  ASSERT_TRUE(first->Read(&event));
  std::thread second([&] {
    const Result r = Attach(id, 0);
    EXPECT_OK(r.status);
    ASSERT_GE(r.events.size(), 2u);
    const v1::GenerateEvent& moving = r.events[r.events.size() - 2];
    EXPECT_EQ(moving.moving().address(), "host:1");
    const v1::Moved& moved = r.events.back().moved();
    EXPECT_EQ(moved.worker_id(), "B");
    EXPECT_EQ(moved.epoch(), 2u);
  });
  const Result superseded = Drain(*first);
  EXPECT_OK(superseded.status);
  EXPECT_TRUE(superseded.events.back().has_superseded());
  ASSERT_OK(worker->manager->BeginMove(id, 1));
  ASSERT_OK(worker->manager->Pause(id));
  worker->manager->AnnounceMoving(id, {"B", "host:1", "m", 2, 0});
  absl::SleepFor(absl::Milliseconds(100));
  ASSERT_OK(worker->manager->MarkMoved(id, {"B", "host:1", "m", 2, worker->manager->Get(id)->output_tokens}));
  second.join();
}

TEST_F(GenerationTest, StoppingBreaksTheStreamInsteadOfEndingTheRequest) {
  Serve(Slow());
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, Text("hello", 5000));
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  worker->manager->Stop();
  const Result r = Drain(*reader);
  EXPECT_THAT(r.status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(r.status, HasReason("NOT_READY"));
  for (const auto& e : r.events) EXPECT_FALSE(e.has_finished());
}

TEST_F(GenerationTest, AnEngineErrorIsTheRequestsEnd) {
  Serve(Slow());
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, Text("hello", 5000));
  v1::GenerateEvent event;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader->Read(&event));
  worker->engine->fake->InjectFault(FakeFault::kStep, absl::InternalError("broken"));
  const Result r = Drain(*reader);
  EXPECT_OK(r.status);
  ASSERT_TRUE(r.events.back().has_finished());
  EXPECT_EQ(r.events.back().finished().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(r.events.back().finished().error().reason(), v1::ENGINE_FAILED);
}

TEST(RequestConvert, RoundTrips) {
  LoggedToken token{7, 42, "\xE2\x82\xAC", -0.5f, {{1, "\xFF", -2.0f}}, 3};
  const LoggedToken back = FromProto(ToProto(token));
  EXPECT_EQ(back.index, 7);
  EXPECT_EQ(back.token, 42);
  EXPECT_EQ(back.text, token.text);
  EXPECT_EQ(back.epoch, 3u);
  EXPECT_EQ(back.top[0].text, "\xEF\xBF\xBD") << "a proto string is UTF-8";
  StopParams stop{9, 2, {"a", "b"}, true};
  const StopParams stop_back = FromProto(ToProto(stop));
  EXPECT_EQ(stop_back.max_tokens, 9);
  EXPECT_EQ(stop_back.stop, stop.stop);
  EXPECT_TRUE(stop_back.ignore_eos);
  EXPECT_EQ(FromProto(v1::StopParams()).max_tokens, 128);
  const Provenance p = FromProto(ToProto(Provenance{{3, 9}, "set", "risk-0.002"}));
  EXPECT_EQ(p.range, (TokenRange{3, 9}));
  EXPECT_EQ(p.profile, "risk-0.002");
  for (int i = 0; i <= static_cast<int>(FinishReason::kError); ++i) {
    EXPECT_EQ(FromProto(ToProto(static_cast<FinishReason>(i))), static_cast<FinishReason>(i));
  }
}

}  // namespace
}  // namespace riskkv::worker::testing
