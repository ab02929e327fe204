// Records for the tests of stores.
#ifndef RISKKV_TESTS_UNIT_STORE_TEST_RECORDS_H_
#define RISKKV_TESTS_UNIT_STORE_TEST_RECORDS_H_

#include <string>

#include "common/migration/records.h"

namespace riskkv {

inline OwnerRecord TestOwner(const std::string& request, uint64_t epoch = 1) {
  OwnerRecord record;
  record.request_id = request;
  record.owner = {.id = "A", .boot_id = "bootA", .address = "a:1"};
  record.epoch = epoch;
  return record;
}

inline JobRecord TestJob(const std::string& id, const std::string& request, int second = 0) {
  JobRecord record;
  record.spec.migration_id = id;
  record.spec.request_id = request;
  record.accepted_at = absl::FromUnixSeconds(1000 + second);
  record.updated_at = record.accepted_at;
  return record;
}

}  // namespace riskkv

#endif  // RISKKV_TESTS_UNIT_STORE_TEST_RECORDS_H_
