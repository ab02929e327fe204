// Matchers for absl::Status and StatusOr.
#ifndef RISKKV_TESTS_TESTING_STATUS_MATCHERS_H_
#define RISKKV_TESTS_TESTING_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status) {
  return status.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(x, StatusIs(absl::StatusCode::kNotFound, HasSubstr("token 7")));
MATCHER_P(StatusIs, code, "has code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}
MATCHER_P2(StatusIs, code, message, "has code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  const absl::Status& status = StatusOf(arg);
  return status.code() == code &&
         ::testing::Matches(message)(std::string(status.message().data(), status.message().size()));
}

// The typed reason of common/base/status.h, e.g. HasReason("NO_BLOCKS").
MATCHER_P(HasReason, reason, std::string("has reason ") + reason) {
  *result_listener << StatusOf(arg).ToString() << " with reason '" << ReasonOf(StatusOf(arg)) << "'";
  return ReasonOf(StatusOf(arg)) == reason;
}

}  // namespace riskkv::testing

#define EXPECT_OK(expr) EXPECT_THAT(expr, ::riskkv::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT(expr, ::riskkv::testing::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  RISKKV_ASSERT_OK_AND_ASSIGN_(RISKKV_CONCAT_(riskkv_statusor_, __LINE__), lhs, expr)
#define RISKKV_ASSERT_OK_AND_ASSIGN_(statusor, lhs, expr) \
  auto statusor = (expr);                                 \
  ASSERT_THAT(statusor, ::riskkv::testing::IsOk());       \
  lhs = std::move(statusor).value()

#endif  // RISKKV_TESTS_TESTING_STATUS_MATCHERS_H_
