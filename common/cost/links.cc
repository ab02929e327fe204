#include "common/cost/links.h"

#include <algorithm>
#include <cmath>

namespace riskkv::cost {
namespace {

constexpr double kSampleWeight = 0.3;              // of a new sample at full size
constexpr double kFullBytes = 1024 * 1024;   // a transfer from this size on has full weight
constexpr double kLeastSeconds = 1e-6;

double Blend(double old, double sample, double weight) { return old == 0 ? sample : old + weight * (sample - old); }

}  // namespace

void LinkTable::Observe(const std::string& source, const std::string& destination, int64_t bytes, double seconds,
                        double rtt_seconds) {
  if (bytes <= 0 || !(seconds > 0) || !std::isfinite(seconds)) return;
  // The first byte is one round trip away from the call: what remains was transfer.
  double moving = rtt_seconds > 0 && rtt_seconds < seconds ? seconds - rtt_seconds : seconds;
  double rate = static_cast<double>(bytes) / std::max(moving, kLeastSeconds);
  double weight = kSampleWeight * std::min(1.0, static_cast<double>(bytes) / kFullBytes);
  MutexLock lock(mu_);
  Entry& entry = links_[{source, destination}];
  entry.bytes_per_second = Blend(entry.bytes_per_second, rate, weight);
  if (rtt_seconds > 0 && std::isfinite(rtt_seconds)) entry.rtt_seconds = Blend(entry.rtt_seconds, rtt_seconds, kSampleWeight);
  ++entry.samples;
  entry.at = clock_->Monotonic();
}

void LinkTable::ObserveRtt(const std::string& source, const std::string& destination, double rtt_seconds) {
  if (!(rtt_seconds > 0) || !std::isfinite(rtt_seconds)) return;
  MutexLock lock(mu_);
  auto it = links_.find({source, destination});
  if (it != links_.end()) it->second.rtt_seconds = Blend(it->second.rtt_seconds, rtt_seconds, kSampleWeight);
}

LinkEstimate LinkTable::Estimate(const Pair& pair, const Entry& entry) const {
  return {.source = pair.first,
          .destination = pair.second,
          .bytes_per_second = entry.bytes_per_second,
          .rtt_seconds = entry.rtt_seconds,
          .samples = entry.samples,
          .age = clock_->Monotonic() - entry.at};
}

std::optional<LinkEstimate> LinkTable::Get(const std::string& source, const std::string& destination) const {
  MutexLock lock(mu_);
  auto it = links_.find({source, destination});
  if (it == links_.end()) return std::nullopt;
  return Estimate(it->first, it->second);
}

std::vector<LinkEstimate> LinkTable::All() const {
  MutexLock lock(mu_);
  std::vector<LinkEstimate> result;
  for (const auto& [pair, entry] : links_) result.push_back(Estimate(pair, entry));
  return result;
}

}  // namespace riskkv::cost
