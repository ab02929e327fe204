#include "common/base/status.h"

#include "absl/strings/cord.h"
#include "nlohmann/json.hpp"

namespace riskkv {
namespace {

constexpr char kDetailUrl[] = "riskkv/error-detail";

absl::string_view Sv(std::string_view s) { return {s.data(), s.size()}; }

absl::Status Rebuild(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), Sv(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) { result.SetPayload(url, value); });
  return result;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message) {
  absl::Status status(code, Sv(message));
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retryable = code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted;
  SetDetail(status, detail);
  return status;
}

void SetDetail(absl::Status& status, const ErrorDetail& detail) {
  nlohmann::json j = {{"reason", detail.reason},       {"side", detail.side},
                      {"stage", detail.stage},         {"retryable", detail.retryable},
                      {"serving", detail.source_still_serving}, {"in_doubt", detail.in_doubt}};
  status.SetPayload(kDetailUrl, absl::Cord(j.dump()));
}

std::optional<ErrorDetail> GetDetail(const absl::Status& status) {
  auto payload = status.GetPayload(kDetailUrl);
  if (!payload) return std::nullopt;
  auto j = nlohmann::json::parse(std::string(*payload), nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return std::nullopt;
  ErrorDetail d;
  d.reason = j.value("reason", "");
  d.side = j.value("side", "");
  d.stage = j.value("stage", "");
  d.retryable = j.value("retryable", false);
  d.source_still_serving = j.value("serving", true);
  d.in_doubt = j.value("in_doubt", false);
  return d;
}

std::string ReasonOf(const absl::Status& status) {
  auto detail = GetDetail(status);
  return detail ? detail->reason : "";
}

absl::Status WithContext(absl::Status status, std::string_view side, std::string_view stage) {
  if (status.ok()) return status;
  ErrorDetail detail = GetDetail(status).value_or(ErrorDetail{});
  if (detail.side.empty()) detail.side = std::string(side);
  if (detail.stage.empty()) detail.stage = std::string(stage);
  SetDetail(status, detail);
  return status;
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return Rebuild(status, std::string(prefix) + ": " + std::string(status.message().data(), status.message().size()));
}

}  // namespace riskkv
