// The small entry that stands for a job in lists, so that its record need not be read.
#ifndef RISKKV_COMMON_STORE_ETCD_JOB_INDEX_H_
#define RISKKV_COMMON_STORE_ETCD_JOB_INDEX_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/migration/records.h"
#include "common/store/etcd/api.h"

namespace riskkv::etcd {

struct JobIndex {
  std::string request;
  std::string migration;
  bool active = true;
  int64_t accepted_ns = 0;
  int64_t updated_ns = 0;
};

JobIndex IndexOf(const JobRecord& job);
std::string Serialise(const JobIndex& index);
// DATA_LOSS (CORRUPT_FILE) naming the key.
absl::StatusOr<JobIndex> ParseIndex(const KeyValue& kv);

}  // namespace riskkv::etcd

#endif  // RISKKV_COMMON_STORE_ETCD_JOB_INDEX_H_
