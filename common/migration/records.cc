#include "common/migration/records.h"

#include "common/base/digest.h"
#include "common/migration/record_json.h"

namespace riskkv {

std::string BodyDigest(const JobSpec& spec) {
  nlohmann::json body = ToJson(spec);
  body.erase("deadline_ms");
  body.erase("traceparent");
  // nlohmann's objects are sorted by key, so that equal bodies have equal text.
  return Sha256Hex(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

const AttemptRecord* JobRecord::Find(uint32_t attempt) const {
  for (const AttemptRecord& record : attempts) {
    if (record.attempt == attempt) return &record;
  }
  return nullptr;
}

AttemptRecord* JobRecord::Find(uint32_t attempt) {
  return const_cast<AttemptRecord*>(static_cast<const JobRecord*>(this)->Find(attempt));
}

Fence FenceOf(const JobRecord& job, const AttemptRecord& attempt) {
  return {.migration_id = job.spec.migration_id,
          .attempt = attempt.attempt,
          .epoch = attempt.epoch,
          .request_id = job.spec.request_id,
          .source_boot_id = attempt.source.boot_id,
          .destination_boot_id = attempt.destination.boot_id,
          .leader_term = attempt.leader_term};
}

}  // namespace riskkv
