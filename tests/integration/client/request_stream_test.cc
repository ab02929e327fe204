// The client library against real servers with written answers.
#include "services/client/request_stream.h"

#include <thread>

#include "tests/integration/client/request_stream_fixture.h"

namespace riskkv::client {
namespace {

TEST_F(RequestStreamTest, ReadsToTheEndAndAcknowledges) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 5, 1);
    s.Finished(5, 1);
    return absl::OkStatus();
  });
  auto stream = Generate();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 5);
  EXPECT_EQ(stream->request_id(), "r-1");
  EXPECT_EQ(a_.acknowledged(), 1);
  EXPECT_EQ(stream->Next().status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(RequestStreamTest, FollowsAMoveWithPreAttach) {
  a_.OnGenerate([&](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 4, 1);
    s.Moving("b", b_.address());
    s.Sleep(absl::Milliseconds(150));
    s.Moved("b", b_.address(), 2, 4);
    return absl::OkStatus();
  });
  auto unknown = [](Script&, const Attach& r) { return ScriptedWorker::Unknown(r); };
  b_.OnAttach(
      {unknown, unknown, [](Script& s, const Attach& r) {  // not prepared yet, then held until the decision
         s.Sleep(absl::Milliseconds(200));
         s.Started(2);
         s.Tokens(r.next_index(), 8, 2);
         s.Finished(8, 2);
         return absl::OkStatus();
       }});
  auto stream = Generate();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 8);
  EXPECT_EQ(result.moving, 1);
  EXPECT_EQ(result.moved, 1);
  EXPECT_EQ(b_.attaches().size(), 3u);
  EXPECT_EQ(b_.attaches().back().next_index(), 4);
  auto changes = stream->log().OwnerChanges();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].index, 4);
  EXPECT_GT(changes[0].pause, absl::Milliseconds(150));
}

TEST_F(RequestStreamTest, FollowsAMoveWithoutPreAttach) {
  a_.OnGenerate([&](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 4, 1);
    s.Moving("b", b_.address());
    s.Moved("b", b_.address(), 2, 4);
    return absl::OkStatus();
  });
  b_.OnAttach({[](Script& s, const Attach& r) {
    s.Tokens(r.next_index() - 1, 4, 1);  // one double from the log
    s.Tokens(4, 8, 2);
    s.Finished(8, 2);
    return absl::OkStatus();
  }});
  StreamOptions options;
  options.pre_attach = false;
  auto stream = Generate(options);
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 8);
  EXPECT_EQ(b_.attaches().size(), 1u);
  EXPECT_EQ(b_.attaches()[0].min_epoch(), 2u);
  EXPECT_EQ(stream->merger().counters().doubles_dropped, 1);
}

TEST_F(RequestStreamTest, AnAbortedMoveGoesOnWhereItWas) {
  a_.OnGenerate([&](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 2, 1);
    s.Moving("b", b_.address());
    s.Sleep(absl::Milliseconds(100));
    s.Tokens(2, 6, 1);
    s.Sleep(absl::Milliseconds(100));
    s.Finished(6, 1);
    return absl::OkStatus();
  });
  auto stream = Generate();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 6);
  EXPECT_GE(b_.attaches().size(), 1u);
  EXPECT_LE(b_.attaches().size(), 8u) << "asked no more once the source went on";
  EXPECT_TRUE(stream->log().OwnerChanges().empty());
}

TEST_F(RequestStreamTest, AttachesAgainWhenTheStreamBreaks) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 3, 1);
    return absl::UnavailableError("connection lost");
  });
  a_.OnAttach(
      {[](Script&, const Attach&) -> absl::Status { return absl::UnavailableError("still starting"); },
       [](Script& s, const Attach& r) {
         s.Tokens(r.next_index(), 6, 1);
         s.Finished(6, 1);
         return absl::OkStatus();
       }});
  auto stream = Generate();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 6);
  EXPECT_EQ(a_.attaches().size(), 2u);
  EXPECT_EQ(a_.attaches()[0].next_index(), 3);
}

TEST_F(RequestStreamTest, AttachesAgainAtAGap) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 2, 1);
    s.Tokens(3, 6, 1);
    s.Hold();
    return absl::OkStatus();
  });
  a_.OnAttach({[](Script& s, const Attach& r) {
    s.Tokens(r.next_index(), 6, 1);
    s.Finished(6, 1);
    return absl::OkStatus();
  }});
  auto stream = Generate();
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 6);
  EXPECT_EQ(stream->merger().counters().gaps_seen, 1);
}

TEST_F(RequestStreamTest, AGapThatStaysIsAnErrorNotASilence) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 2, 1);
    s.Tokens(3, 6, 1);
    return absl::OkStatus();
  });
  a_.OnAttach({[](Script& s, const Attach& r) {
    s.Tokens(r.next_index() + 1, 6, 1);
    return absl::OkStatus();
  }});
  StreamOptions options;
  options.max_attempts = 3;
  auto stream = Generate(options);
  Result result = Drain(*stream);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(result.text, Text(2));
  EXPECT_EQ(a_.attaches().size(), 3u);
}

TEST_F(RequestStreamTest, AsksTheCoordinatorWhenNobodySaidWhereItWent) {
  ScriptedCoordinator coordinator;
  coordinator.SetOwner("b", b_.address(), 2, 4);
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 3, 1);
    return absl::UnavailableError("worker died");
  });
  b_.OnAttach({[](Script& s, const Attach& r) {
    s.Tokens(r.next_index(), 4, 1);
    s.Tokens(4, 8, 2);
    s.Finished(8, 2);
    return absl::OkStatus();
  }});
  StreamOptions options;
  options.coordinator = coordinator.address();
  auto stream = Generate(options);
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 8);
  EXPECT_EQ(coordinator.located(), 1);
  EXPECT_TRUE(a_.attaches().empty());
  EXPECT_EQ(b_.attaches().at(0).min_epoch(), 2u);
}

TEST_F(RequestStreamTest, GivesUpWithTheReasonAfterBoundedAttempts) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 1, 1);
    return absl::UnavailableError("gone");
  });
  a_.OnAttach({[](Script&, const Attach&) {
    return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "loading");
  }});
  StreamOptions options;
  options.max_attempts = 3;
  options.backoff = absl::Milliseconds(1);
  auto stream = Generate(options);
  Result result = Drain(*stream);
  EXPECT_THAT(result.status, HasReason("NOT_READY"));
  EXPECT_THAT(std::string(result.status.message()), ::testing::HasSubstr("given up after 4 attempts"));
  EXPECT_EQ(a_.attaches().size(), 3u);
}

TEST_F(RequestStreamTest, AnUnknownRequestIsNotAskedTwice) {
  auto stream = RequestStream::Attach(a_.address(), "r-9", 0, 0, {}, &clock_);
  Result result = Drain(*stream);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(result.status, HasReason("UNKNOWN_REQUEST"));
  EXPECT_EQ(a_.attaches().size(), 1u);
}

TEST_F(RequestStreamTest, AttachToAFormerOwnerFollowsMoved) {
  a_.OnAttach({[&](Script& s, const Attach&) {
    s.Moved("b", b_.address(), 2, 4);
    return absl::OkStatus();
  }});
  b_.OnAttach({[](Script& s, const Attach& r) {
    s.Tokens(r.next_index(), 4, 1);
    s.Tokens(4, 6, 2);
    s.Finished(6, 2);
    return absl::OkStatus();
  }});
  auto stream = RequestStream::Attach(a_.address(), "r-1", 0, 0, {}, &clock_);
  Result result = Drain(*stream);
  ExpectUnbroken(*stream, result, 6);
}

TEST_F(RequestStreamTest, SupersededIsATypedEnd) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Tokens(0, 1, 1);
    s.Superseded();
    return absl::OkStatus();
  });
  auto stream = Generate();
  EXPECT_THAT(Drain(*stream).status, HasReason("SUPERSEDED"));
  EXPECT_TRUE(a_.attaches().empty());
}

TEST_F(RequestStreamTest, ARefusedAdmissionIsNotRetried) {
  a_.OnGenerate([](Script&, const Attach&) {
    return MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "64 requests wait, the limit is 64");
  });
  auto stream = Generate();
  Result result = Drain(*stream);
  EXPECT_THAT(result.status, HasReason("QUEUE_FULL"));
  EXPECT_TRUE(a_.attaches().empty());
}

TEST_F(RequestStreamTest, StopEndsABlockedRead) {
  a_.OnGenerate([](Script& s, const Attach&) {
    s.Started(1);
    s.Hold();
    return absl::OkStatus();
  });
  auto stream = Generate();
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(100));
    stream->Stop();
  });
  EXPECT_THAT(Drain(*stream).status, HasReason("CANCELLED_BY_CALLER"));
  stopper.join();
}

TEST_F(RequestStreamTest, AWorkerThatIsNotThereIsATypedError) {
  auto stream = RequestStream::Generate("127.0.0.1:1", v1::GenerateRequest(), {}, &clock_);
  Result result = Drain(*stream);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(result.status, HasReason("PEER_UNREACHABLE"));
  EXPECT_THAT(std::string(result.status.message()), ::testing::HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace riskkv::client
