// Starts a migration, or joins one, and follows its events to the terminal one across broken connections.
#ifndef RISKKV_SERVICES_CLIENT_MIGRATION_FOLLOWER_H_
#define RISKKV_SERVICES_CLIENT_MIGRATION_FOLLOWER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/net/leader_channel.h"
#include "riskkv/v1/coordinator.grpc.pb.h"

namespace riskkv::client {

// Stop() is thread-safe; one call at a time of the others.
class MigrationFollower {
 public:
  using Sink = std::function<void(const v1::MigrationEvent&)>;

  // One address, or several coordinators', comma-separated, of which one leads.
  explicit MigrationFollower(const std::string& coordinator_addresses);

  // The outcome, whatever it is; an error when the coordinator refused the request or is gone for good.
  absl::StatusOr<v1::Outcome> Migrate(const v1::MigrateRequest& request, const Sink& sink);
  // Events above `after_seq`.
  absl::StatusOr<v1::Outcome> Watch(const std::string& migration_id, uint64_t after_seq, const Sink& sink);
  // Ends a running call with CANCELLED. The migration goes on.
  void Stop();

 private:
  using Reader = std::unique_ptr<grpc::ClientReader<v1::MigrationEvent>>;
  using Starter = std::function<Reader(v1::Coordinator::Stub&, grpc::ClientContext*)>;
  // Reads one stream; true when the terminal event came.
  absl::StatusOr<bool> ReadOne(const Starter& start, const Sink& sink);
  absl::StatusOr<v1::Outcome> Follow(const std::string& migration_id, Starter start, const Sink& sink);
  bool stopped();

  LeaderChannel leader_;
  uint64_t seq_ = 0;
  v1::Outcome outcome_;
  Mutex mu_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_MIGRATION_FOLLOWER_H_
