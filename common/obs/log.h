// Logging: spdlog to stderr; lines of a move carry its ids ("mig=<id> req=<id> ...").
#ifndef RISKKV_COMMON_OBS_LOG_H_
#define RISKKV_COMMON_OBS_LOG_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace riskkv {

using Logger = std::shared_ptr<spdlog::logger>;

// A logger to stderr. level: trace, debug, info, warn, error, off; INVALID_ARGUMENT is not possible: unknown means info.
Logger MakeLogger(const std::string& name, const std::string& level = "info");
// One that drops everything, for tests.
Logger NullLogger();

}  // namespace riskkv

template <>
struct fmt::formatter<absl::Status> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const absl::Status& s, Context& ctx) const {
    return fmt::formatter<std::string>::format(s.ToString(absl::StatusToStringMode::kWithNoExtraData), ctx);
  }
};

#endif  // RISKKV_COMMON_OBS_LOG_H_
