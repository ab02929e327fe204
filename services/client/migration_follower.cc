#include "services/client/migration_follower.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"

namespace riskkv::client {
namespace {

constexpr int kMaxReconnects = 20;  // in a row without an event
constexpr absl::Duration kReconnectWait = absl::Milliseconds(250);

absl::Status StoppedError() {
  return WithContext(MakeError(absl::StatusCode::kCancelled, "CANCELLED_BY_CALLER",
                               "no longer watched; the migration goes on"),
                     "client", "");
}

}  // namespace

MigrationFollower::MigrationFollower(const std::string& coordinator_addresses)
    : leader_(SplitAddresses(coordinator_addresses)) {}

absl::StatusOr<v1::Outcome> MigrationFollower::Migrate(const v1::MigrateRequest& request, const Sink& sink) {
  seq_ = 0;
  return Follow(
      request.migration_id(), [&](v1::Coordinator::Stub& stub, grpc::ClientContext* context) { return stub.Migrate(context, request); },
      sink);
}

absl::StatusOr<v1::Outcome> MigrationFollower::Watch(const std::string& migration_id, uint64_t after_seq,
                                                     const Sink& sink) {
  seq_ = after_seq;
  return Follow(migration_id, nullptr, sink);
}

void MigrationFollower::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  if (running_ != nullptr) running_->TryCancel();
}

bool MigrationFollower::stopped() {
  MutexLock lock(mu_);
  return stopped_;
}

absl::StatusOr<bool> MigrationFollower::ReadOne(const Starter& start, const Sink& sink) {
  grpc::ClientContext context;
  {
    MutexLock lock(mu_);
    if (stopped_) return StoppedError();
    running_ = &context;
  }
  const LeaderChannel::Choice to = leader_.Current();
  auto stub = v1::Coordinator::NewStub(to.channel);
  Reader reader = start(*stub, &context);
  v1::MigrationEvent event;
  bool terminal = false;
  while (reader->Read(&event)) {
    if (event.seq() <= seq_) continue;
    seq_ = event.seq();
    if (event.has_outcome()) {
      terminal = true;
      outcome_ = event.outcome();
    }
    sink(event);
  }
  grpc::Status status = reader->Finish();
  {
    MutexLock lock(mu_);
    running_ = nullptr;
  }
  if (terminal) return true;
  RETURN_IF_ERROR(leader_.Learn(to.address, FromGrpc(status, fmt::format("coordinator {}", to.address))));
  return false;
}

absl::StatusOr<v1::Outcome> MigrationFollower::Follow(const std::string& migration_id, Starter start,
                                                      const Sink& sink) {
  Starter watch = [this, &migration_id](v1::Coordinator::Stub& stub, grpc::ClientContext* context) {
    v1::WatchMigrationRequest request;
    request.set_migration_id(migration_id);
    request.set_from_seq(seq_ + 1);
    return stub.WatchMigration(context, request);
  };
  if (start == nullptr) start = watch;
  for (int failures = 0;;) {
    uint64_t before = seq_;
    absl::StatusOr<bool> done = ReadOne(start, sink);
    if (done.ok() && *done) return outcome_;
    if (stopped()) return StoppedError();
    if (seq_ > before) failures = 0;
    bool lost = done.ok() || done.status().code() == absl::StatusCode::kUnavailable;
    // Before the first event nothing is known to have been accepted, and a refusal must not be mistaken for a
    // lost line.
    // Another coordinator leads: it has done nothing, and the next one is asked the same.
    const bool elsewhere = seq_ == 0 && ReasonOf(done.status()) == "NOT_LEADER";
    if (!lost || (seq_ == 0 && !elsewhere) || ++failures > kMaxReconnects) {
      return done.ok() ? MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE",
                                   fmt::format("coordinator {} ended the events of {} without an outcome",
                                               leader_.Current().address, migration_id))
                       : done.status();
    }
    absl::SleepFor(kReconnectWait);
    if (!elsewhere) start = watch;
  }
}

}  // namespace riskkv::client
