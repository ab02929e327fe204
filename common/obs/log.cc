#include "common/obs/log.h"

#include "spdlog/sinks/null_sink.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace riskkv {

Logger MakeLogger(const std::string& name, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %n %v");
  auto parsed = spdlog::level::from_str(level);
  logger->set_level(parsed == spdlog::level::off && level != "off" ? spdlog::level::info : parsed);
  logger->flush_on(spdlog::level::info);
  return logger;
}

Logger NullLogger() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace riskkv
