#include "services/cli/names.h"

#include <algorithm>
#include <cctype>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::cli {
namespace {

// The longest part up to an underscore that all values share.
std::string SharedPrefix(const google::protobuf::EnumDescriptor& descriptor) {
  std::string shared = descriptor.value(0)->name();
  for (int i = 1; i < descriptor.value_count(); ++i) {
    const std::string& name = descriptor.value(i)->name();
    size_t n = 0;
    while (n < shared.size() && n < name.size() && shared[n] == name[n]) ++n;
    shared.resize(n);
  }
  size_t underscore = shared.rfind('_');
  return underscore == std::string::npos ? "" : shared.substr(0, underscore + 1);
}

std::string Upper(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::toupper(c); });
  return s;
}

absl::Status NotAmong(const char* what, const std::string& name, const char* choices) {
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                   fmt::format("{} '{}' is not one of {}", what, name, choices));
}

}  // namespace

std::string ShortName(const google::protobuf::EnumDescriptor& descriptor, int number) {
  const auto* value = descriptor.FindValueByNumber(number);
  if (value == nullptr) return std::to_string(number);
  return value->name().substr(SharedPrefix(descriptor).size());
}

bool IsTerminal(v1::MigrationState state) {
  return state == v1::MIGRATION_STATE_SUCCEEDED || state == v1::MIGRATION_STATE_STAYED ||
         state == v1::MIGRATION_STATE_ABORTED || state == v1::MIGRATION_STATE_FAILED;
}

absl::StatusOr<v1::Mode> ParseMode(const std::string& name) {
  v1::Mode mode;
  if (v1::Mode_Parse("MODE_" + Upper(name), &mode) && mode != v1::MODE_UNSPECIFIED) return mode;
  return NotAmong("mode", name, "auto, risk, full, replay, coded, stay");
}

absl::StatusOr<v1::MigrateRequest::OnFailure> ParseOnFailure(const std::string& name) {
  v1::MigrateRequest::OnFailure value;
  if (v1::MigrateRequest::OnFailure_Parse(Upper(name), &value)) return value;
  return NotAmong("on-failure", name, "stay, replay, fail");
}

}  // namespace riskkv::cli
