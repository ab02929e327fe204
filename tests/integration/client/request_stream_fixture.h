// A client's stream against two workers with written answers.
#ifndef RISKKV_TESTS_INTEGRATION_CLIENT_REQUEST_STREAM_FIXTURE_H_
#define RISKKV_TESTS_INTEGRATION_CLIENT_REQUEST_STREAM_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "services/client/request_stream.h"
#include "tests/integration/client/scripted_worker.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::client {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::Script;
using ::riskkv::testing::ScriptedCoordinator;
using ::riskkv::testing::ScriptedWorker;
using Attach = v1::AttachRequest;

struct Result {
  absl::Status status;
  std::string text;
  int moving = 0;
  int moved = 0;
};

// Reads to the end.
inline Result Drain(RequestStream& stream) {
  Result result;
  while (true) {
    absl::StatusOr<StreamItem> item = stream.Next(absl::Seconds(20));
    if (!item.ok()) {
      result.status = item.status();
      return result;
    }
    if (const auto* t = std::get_if<TokenEvent>(&*item)) result.text += t->text;
    if (std::holds_alternative<MovingEvent>(*item)) ++result.moving;
    if (std::holds_alternative<MovedEvent>(*item)) ++result.moved;
    if (std::holds_alternative<FinishedEvent>(*item)) return result;
  }
}

inline std::string Text(int64_t end) {
  std::string text;
  for (int64_t i = 0; i < end; ++i) text += fmt::format("<{}>", i);
  return text;
}

class RequestStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<RequestStream> Generate(StreamOptions options = {}) {
    return RequestStream::Generate(a_.address(), v1::GenerateRequest(), std::move(options), &clock_);
  }
  // The account every test ends with.
  void ExpectUnbroken(const RequestStream& stream, const Result& result, int64_t tokens) {
    EXPECT_OK(result.status);
    EXPECT_EQ(result.text, Text(tokens));
    EXPECT_EQ(stream.log().Lost(tokens), 0);
    EXPECT_EQ(stream.log().Duplicated(), 0);
  }
  RealClock clock_;
  ScriptedWorker a_{"a"}, b_{"b"};
};

}  // namespace riskkv::client

#endif  // RISKKV_TESTS_INTEGRATION_CLIENT_REQUEST_STREAM_FIXTURE_H_
