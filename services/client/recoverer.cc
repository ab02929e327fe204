#include "services/client/recoverer.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"

namespace riskkv::client {
namespace {

constexpr int kMostLeadersAsked = 5;

}  // namespace

Recoverer::Recoverer(const std::string& coordinator_addresses) : leader_(SplitAddresses(coordinator_addresses)) {}

Recoverer::~Recoverer() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void Recoverer::Start(v1::RecoverRequest request, absl::Duration timeout) {
  if (running()) return;
  thread_ = std::thread([this, request = std::move(request), timeout] {
    absl::StatusOr<Target> answer = Call(request, timeout);
    MutexLock lock(mu_);
    answer_ = std::move(answer);
  });
}

std::optional<absl::StatusOr<Target>> Recoverer::Take() {
  std::optional<absl::StatusOr<Target>> answer;
  {
    MutexLock lock(mu_);
    if (!answer_) return std::nullopt;
    answer.swap(answer_);
  }
  thread_.join();
  return answer;
}

absl::StatusOr<Target> Recoverer::Call(const v1::RecoverRequest& request, absl::Duration timeout) {
  const absl::Time until = absl::Now() + timeout;
  for (int tries = 1;; ++tries) {
    grpc::ClientContext context;
    SetTimeout(context, until - absl::Now());
    {
      MutexLock lock(mu_);
      if (stopped_) return absl::CancelledError("the client stopped");
      context_ = &context;
    }
    v1::LocateReply reply;
    const LeaderChannel::Choice to = leader_.Current();
    const absl::Status status =
        leader_.Learn(to.address, FromGrpc(v1::Coordinator::NewStub(to.channel)->Recover(&context, request, &reply),
                                           fmt::format("coordinator {}: Recover", to.address)));
    {
      MutexLock lock(mu_);
      context_ = nullptr;
    }
    if (status.ok()) return Target{reply.owner(), reply.address(), reply.epoch(), reply.start_index()};
    if (tries == kMostLeadersAsked || !leader_.ElsewhereMayDo(status)) return status;
  }
}

}  // namespace riskkv::client
