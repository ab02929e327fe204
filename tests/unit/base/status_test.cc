#include "common/base/status.h"

#include "gtest/gtest.h"

namespace riskkv {
namespace {

TEST(StatusDetail, SurvivesAnnotationAndContext) {
  absl::Status s = MakeError(absl::StatusCode::kDataLoss, "CHECKSUM", "frame 3: got 1, want 2");
  s = WithContext(Annotate(s, "worker b"), "destination", "PRECOPY");
  auto d = GetDetail(s);
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->reason, "CHECKSUM");
  EXPECT_EQ(d->side, "destination");
  EXPECT_EQ(d->stage, "PRECOPY");
  EXPECT_EQ(s.message(), "worker b: frame 3: got 1, want 2");
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
}

TEST(StatusDetail, ContextDoesNotOverwriteWhereItHappenedFirst) {
  absl::Status s = WithContext(MakeError(absl::StatusCode::kAborted, "X", "m"), "source", "PAUSED");
  s = WithContext(s, "coordinator", "FINAL");
  EXPECT_EQ(GetDetail(s)->side, "source");
  EXPECT_EQ(GetDetail(s)->stage, "PAUSED");
}

TEST(StatusDetail, OkHasNone) {
  EXPECT_TRUE(WithContext(absl::OkStatus(), "source", "").ok());
  EXPECT_FALSE(GetDetail(absl::OkStatus()).has_value());
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), "");
}

TEST(StatusDetail, RetryableFollowsTheCode) {
  EXPECT_TRUE(GetDetail(MakeError(absl::StatusCode::kUnavailable, "A", ""))->retryable);
  EXPECT_FALSE(GetDetail(MakeError(absl::StatusCode::kDataLoss, "A", ""))->retryable);
}

absl::StatusOr<int> Half(int x) {
  if (x % 2) return absl::InvalidArgumentError("odd");
  return x / 2;
}
absl::StatusOr<int> Quarter(int x) {
  ASSIGN_OR_RETURN(int h, Half(x));
  RETURN_IF_ERROR(Half(h).status());
  return h / 2;
}

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_FALSE(Quarter(7).ok());
}

}  // namespace
}  // namespace riskkv
