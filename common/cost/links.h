// How fast the link of each (source, destination) pair is, from real transfers.
#ifndef RISKKV_COMMON_COST_LINKS_H_
#define RISKKV_COMMON_COST_LINKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace riskkv::cost {

struct LinkEstimate {
  std::string source;
  std::string destination;
  double bytes_per_second = 0;
  double rtt_seconds = 0;
  int64_t samples = 0;
  absl::Duration age;  // since the last sample
};

// An exponentially weighted estimate a pair. A transfer counts by its size: one of a few kilobytes says little about bandwidth.
// Thread-safe; ages come from the monotonic clock.
class LinkTable {
 public:
  explicit LinkTable(const Clock* clock) : clock_(clock) {}

  // bytes over seconds; rtt_seconds 0: not measured. Senseless values (no bytes, no time) are ignored.
  void Observe(const std::string& source, const std::string& destination, int64_t bytes, double seconds, double rtt_seconds);
  void ObserveRtt(const std::string& source, const std::string& destination, double rtt_seconds);
  std::optional<LinkEstimate> Get(const std::string& source, const std::string& destination) const;
  std::vector<LinkEstimate> All() const;

 private:
  struct Entry {
    double bytes_per_second = 0;
    double rtt_seconds = 0;
    int64_t samples = 0;
    absl::Duration at;
  };
  using Pair = std::pair<std::string, std::string>;
  LinkEstimate Estimate(const Pair& pair, const Entry& entry) const;

  const Clock* const clock_;
  mutable Mutex mu_;
  std::map<Pair, Entry> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::cost

#endif  // RISKKV_COMMON_COST_LINKS_H_
