#include "services/coordinator/rpc/service_gate.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/net/status.h"

namespace riskkv::coordinator {
namespace {

constexpr absl::Duration kLookForLeavers = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<const ServiceContext>> ServiceGate::Enter() const {
  MutexLock lock(mu_);
  if (context_) return context_;
  return NotLeader(leader_);
}

void ServiceGate::Open(ServiceContext context) {
  MutexLock lock(mu_);
  context_ = std::make_shared<const ServiceContext>(std::move(context));
}

void ServiceGate::Close() {
  std::weak_ptr<const ServiceContext> inside;
  {
    MutexLock lock(mu_);
    inside = context_;
    context_.reset();
    leader_.clear();
  }
  while (!inside.expired()) absl::SleepFor(kLookForLeavers);
}

void ServiceGate::NameLeader(const std::string& address) {
  MutexLock lock(mu_);
  leader_ = address;
}

}  // namespace riskkv::coordinator
