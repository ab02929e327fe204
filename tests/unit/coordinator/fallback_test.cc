#include "services/coordinator/core/fallback.h"

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace riskkv::coordinator {
namespace {

TEST(Fallback, Table) {
  auto error = [](const char* reason) { return MakeError(absl::StatusCode::kAborted, reason, "x"); };
  struct Row {
    Mode mode;
    OnFailure on_failure;
    const char* reason;
    Mode next;
  };
  const Row rows[] = {
      {Mode::kRisk, OnFailure::kUnspecified, "VERIFY_GATE", Mode::kFull},
      {Mode::kFull, OnFailure::kUnspecified, "CHECKSUM", Mode::kStay},
      {Mode::kRisk, OnFailure::kStay, "NO_BLOCKS", Mode::kStay},
      {Mode::kRisk, OnFailure::kStay, "STAGES_EXCEEDED", Mode::kStay},
      {Mode::kRisk, OnFailure::kReplay, "STAGES_EXCEEDED", Mode::kReplay},
      {Mode::kFull, OnFailure::kReplay, "PAUSE_BUDGET", Mode::kReplay},
      {Mode::kReplay, OnFailure::kReplay, "INTERNAL_ERROR", Mode::kStay},
      {Mode::kRisk, OnFailure::kFail, "VERIFY_GATE", Mode::kUnspecified},
      {Mode::kRisk, OnFailure::kReplay, "VERIFY_GATE", Mode::kFull},
      {Mode::kCoded, OnFailure::kStay, "PREDICTOR_MISSING", Mode::kFull},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(NextMode(row.mode, row.on_failure, error(row.reason)), row.next) << Name(row.mode) << " " << row.reason;
  }
}

}  // namespace
}  // namespace riskkv::coordinator
