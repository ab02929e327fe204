#include "common/store/etcd/job_index.h"

#include "common/base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv::etcd {

JobIndex IndexOf(const JobRecord& job) {
  return {.request = job.spec.request_id,
          .migration = job.spec.migration_id,
          .active = !IsTerminal(job.state),
          .accepted_ns = absl::ToUnixNanos(job.accepted_at),
          .updated_ns = absl::ToUnixNanos(job.updated_at)};
}

std::string Serialise(const JobIndex& index) {
  nlohmann::json j = {{"request", index.request},
                      {"migration", index.migration},
                      {"active", index.active},
                      {"accepted_ns", index.accepted_ns},
                      {"updated_ns", index.updated_ns}};
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<JobIndex> ParseIndex(const KeyValue& kv) {
  auto j = nlohmann::json::parse(kv.value, nullptr, /*allow_exceptions=*/false);
  auto text = [&](const char* name) { return j.contains(name) && j[name].is_string(); };
  auto number = [&](const char* name) { return j.contains(name) && j[name].is_number_integer(); };
  if (!j.is_object() || !text("request") || !text("migration") || !j.contains("active") || !j["active"].is_boolean() ||
      !number("accepted_ns") || !number("updated_ns")) {
    return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("etcd key {} cannot be read as a job's entry", kv.key));
  }
  return JobIndex{.request = j["request"],
                  .migration = j["migration"],
                  .active = j["active"],
                  .accepted_ns = j["accepted_ns"],
                  .updated_ns = j["updated_ns"]};
}

}  // namespace riskkv::etcd
