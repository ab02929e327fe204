#include "services/worker/rpc/registration.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLastRetry = absl::Seconds(3);
constexpr absl::Duration kRegister = absl::Seconds(5);

}  // namespace

Registration::Registration(CoordinatorClient* coordinator, const Describer* describer, Logger log)
    : coordinator_(coordinator), describer_(describer), log_(std::move(log)) {}

Registration::~Registration() { Stop(); }

void Registration::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Registration::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  cancel_.Cancel();
  if (thread_.joinable()) thread_.join();
}

void Registration::Nudge() {
  MutexLock lock(mu_);
  nudged_ = true;
  wake_.NotifyAll();
}

bool Registration::Sleep(absl::Duration duration) {
  const absl::Time end = absl::Now() + duration;
  MutexLock lock(mu_);
  while (!stop_ && !nudged_ && absl::Now() < end) wake_.WaitFor(mu_, absl::ToChronoNanoseconds(end - absl::Now()));
  nudged_ = false;
  return !stop_;
}

void Registration::Run() {
  absl::Duration retry = kFirstRetry;
  do {
    const absl::Time start = absl::Now();
    const absl::Status ended = Session();
    const bool was = registered_.exchange(false);
    {
      MutexLock lock(mu_);
      if (stop_) return;
    }
    if (was) retry = kFirstRetry;
    // The first failure is news; a coordinator that stays away is not.
    log_->log(was || retry == kFirstRetry ? spdlog::level::warn : spdlog::level::debug,
              "not registered at the coordinator (after {}): {}", absl::FormatDuration(absl::Now() - start), ended);
    if (!Sleep(retry)) return;
    retry = std::min(retry * 2, kLastRetry);
  } while (true);
}

v1::LeaseRenewal Registration::Renewal() const {
  v1::LeaseRenewal renewal;
  renewal.set_worker_id(describer_->identity().worker_id);
  renewal.set_boot_id(describer_->identity().boot_id);
  *renewal.mutable_load() = describer_->Load();
  *renewal.mutable_costs() = describer_->Costs();
  renewal.set_serving(describer_->Serving());
  for (const auto& set : describer_->predictors().List()) renewal.add_set_digests(set->set->digest());
  return renewal;
}

absl::Status Registration::Session() {
  const LeaderChannel::Choice to = coordinator_->leader().Current();
  absl::Duration every;
  {
    grpc::ClientContext context;
    SetTimeout(context, kRegister);
    Cancellation::Hook hook(&cancel_, [&] { context.TryCancel(); });
    v1::RegisterRequest request;
    *request.mutable_worker() = describer_->Info();
    v1::RegisterReply reply;
    RETURN_IF_ERROR(coordinator_->leader().Learn(
        to.address, FromGrpc(v1::Registry::NewStub(to.channel)->Register(&context, request, &reply), "Register at " + to.address)));
    every = absl::Milliseconds(std::clamp<int64_t>(reply.renew_ms(), 10, 60000));
    log_->info("registered at coordinator {} at {} (lease {} ms, renewed every {})", reply.coordinator_id(), to.address, reply.lease_ms(),
               absl::FormatDuration(every));
  }
  registered_ = true;
  grpc::ClientContext context;
  Cancellation::Hook hook(&cancel_, [&] { context.TryCancel(); });
  auto stub = v1::Registry::NewStub(to.channel);
  auto stream = stub->RenewLease(&context);
  v1::LeaseReply reply;
  // Answered one by one. A connection that is gone is found out by keepalive.
  while (stream->Write(Renewal()) && stream->Read(&reply)) {
    if (!Sleep(every)) break;
  }
  stream->WritesDone();
  context.TryCancel();
  absl::Status status = coordinator_->leader().Learn(to.address, FromGrpc(stream->Finish(), "RenewLease"));
  return status.ok() ? absl::UnavailableError("the coordinator ended the lease stream") : status;
}

}  // namespace riskkv::worker
