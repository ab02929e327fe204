#include "services/client/core/delivery_log.h"

#include <algorithm>
#include <set>

namespace riskkv::client {

void DeliveryLog::Add(const TokenEvent& token, absl::Duration received) {
  deliveries_.push_back({token.index, token.token, token.epoch, received});
}

std::vector<int32_t> DeliveryLog::Tokens() const {
  std::vector<int32_t> tokens;
  for (const Delivery& d : deliveries_) tokens.push_back(d.token);
  return tokens;
}

int64_t DeliveryLog::Lost(int64_t output_tokens) const {
  std::set<int64_t> seen;
  for (const Delivery& d : deliveries_) {
    if (d.index >= first_index_ && d.index < output_tokens) seen.insert(d.index);
  }
  return std::max<int64_t>(0, output_tokens - first_index_) - static_cast<int64_t>(seen.size());
}

int64_t DeliveryLog::Duplicated() const {
  std::set<int64_t> seen;
  for (const Delivery& d : deliveries_) seen.insert(d.index);
  return static_cast<int64_t>(deliveries_.size() - seen.size());
}

std::vector<OwnerChange> DeliveryLog::OwnerChanges() const {
  std::vector<OwnerChange> changes;
  for (size_t i = 1; i < deliveries_.size(); ++i) {
    const Delivery& before = deliveries_[i - 1];
    const Delivery& after = deliveries_[i];
    if (before.epoch == after.epoch) continue;
    changes.push_back({after.index, before.epoch, after.epoch, after.received - before.received});
  }
  return changes;
}

absl::Duration DeliveryLog::MedianGap() const {
  std::vector<absl::Duration> gaps;
  for (size_t i = 1; i < deliveries_.size(); ++i) {
    if (deliveries_[i].epoch != deliveries_[i - 1].epoch) continue;
    gaps.push_back(deliveries_[i].received - deliveries_[i - 1].received);
  }
  if (gaps.empty()) return absl::ZeroDuration();
  std::nth_element(gaps.begin(), gaps.begin() + gaps.size() / 2, gaps.end());
  return gaps[gaps.size() / 2];
}

}  // namespace riskkv::client
