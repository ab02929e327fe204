#include "common/net/leader_channel.h"

#include <utility>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "common/net/status.h"
#include "fmt/format.h"

namespace riskkv {

std::vector<std::string> SplitAddresses(std::string_view list) {
  std::vector<std::string> addresses;
  for (;;) {
    const auto comma = list.find(',');
    addresses.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return addresses;
    list = list.substr(comma + 1);
  }
}

absl::StatusOr<std::vector<std::string>> ParseAddresses(std::string_view list) {
  std::vector<std::string> addresses = SplitAddresses(list);
  for (const std::string& address : addresses) RETURN_IF_ERROR(HostOf(address).status());
  return addresses;
}

LeaderChannel::LeaderChannel(std::vector<std::string> addresses) : addresses_(std::move(addresses)), current_(addresses_.front()) {}

LeaderChannel::Choice LeaderChannel::Current() {
  MutexLock lock(mu_);
  if (!channel_) channel_ = CreateChannel(current_, ChannelKind::kControl);
  return {current_, channel_};
}

absl::Status LeaderChannel::Learn(const std::string& address, absl::Status outcome) {
  const std::string reason = ReasonOf(outcome);
  const bool elsewhere = reason == "NOT_LEADER";
  if (outcome.ok() || (!elsewhere && reason != "PEER_UNREACHABLE" && reason != "NO_PROGRESS")) return outcome;
  MutexLock lock(mu_);
  if (address != current_) return outcome;  // another call has learnt it already
  std::string to = LeaderAddress(outcome);
  if (to.empty() || to == current_) {
    next_ = (next_ + 1) % addresses_.size();
    to = addresses_[next_];
  }
  if (to != current_) channel_.reset();
  current_ = to;
  return outcome;
}

bool LeaderChannel::ElsewhereMayDo(const absl::Status& outcome) const {
  const std::string reason = ReasonOf(outcome);
  return reason == "NOT_LEADER" || (reason == "PEER_UNREACHABLE" && addresses_.size() > 1);
}

}  // namespace riskkv
