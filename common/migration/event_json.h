// JSON of events and outcomes, and the helpers record_json.cc shares. Internal to common/migration: the readers throw
// nlohmann's exceptions, which ParseOwnerRecord and ParseJobRecord catch.
#ifndef RISKKV_COMMON_MIGRATION_EVENT_JSON_H_
#define RISKKV_COMMON_MIGRATION_EVENT_JSON_H_

#include <stdexcept>
#include <string>

#include "absl/time/time.h"
#include "common/migration/records.h"
#include "nlohmann/json.hpp"

namespace riskkv {

nlohmann::json ToJson(const JobEvent& event);
nlohmann::json ToJson(const Outcome& outcome);
nlohmann::json TimeJson(absl::Time time);  // nanoseconds since 1970

JobEvent EventFrom(const nlohmann::json& j);
Outcome OutcomeFrom(const nlohmann::json& j);
Plan PlanFrom(const nlohmann::json& j);
absl::Status StatusFrom(const nlohmann::json& j, const char* key);
absl::Time TimeFrom(const nlohmann::json& j, const char* key);

// Leaves `out` as it is when the key is absent; throws when the value has another type.
template <typename T>
void Read(const nlohmann::json& j, const char* key, T& out) {
  if (auto it = j.find(key); it != j.end()) it->get_to(out);
}

template <typename Enum, typename Parse>
void ReadName(const nlohmann::json& j, const char* key, Enum& out, Parse parse) {
  std::string name;
  Read(j, key, name);
  if (name.empty()) return;
  auto value = parse(name);
  if (!value) throw std::runtime_error("unknown " + std::string(key) + " '" + name + "'");
  out = *value;
}

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_EVENT_JSON_H_
