// Workers A and B of a move, in one gRPC server, as several coordinators see them: they register at whoever leads, the source holds its
// attempt whatever becomes of a coordinator's stream, and the test itself asks for the destination.
#ifndef RISKKV_TESTS_INTEGRATION_ETCD_MOVING_WORKERS_H_
#define RISKKV_TESTS_INTEGRATION_ETCD_MOVING_WORKERS_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/leader_channel.h"
#include "common/net/server.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "riskkv/v1/worker.grpc.pb.h"

namespace riskkv::testing {

inline constexpr char kMovingRequest[] = "bootA-01";

// Thread-safe.
class MovingWorkers : public v1::Worker::Service, public v1::Generation::Service {
 public:
  explicit MovingWorkers(std::vector<std::string> coordinators);
  ~MovingWorkers();

  // The attempt that the source was told to start; nothing before.
  std::optional<v1::Fence> fence() const;
  // As the destination, of whoever leads, again and again until there is a decision or `timeout` passes (then DECISION_UNSPECIFIED).
  v1::DecisionReply Prepared(absl::Duration timeout);
  v1::DecisionReply Resumed(uint64_t epoch, absl::Duration timeout);
  // Once, at one coordinator.
  static absl::StatusOr<v1::DecisionReply> PreparedAt(const std::string& coordinator, const v1::Fence& fence);
  int starts() const { return starts_; }

  grpc::Status GetRequest(grpc::ServerContext*, const v1::GetRequestRequest* request, v1::RequestInfo* reply) override;
  grpc::Status Reserve(grpc::ServerContext*, const v1::ReserveRequest* request, v1::ReserveReply* reply) override;
  grpc::Status Decide(grpc::ServerContext*, const v1::DecideRequest*, v1::DecideReply* reply) override;
  grpc::Status QueryAttempt(grpc::ServerContext*, const v1::QueryAttemptRequest* request, v1::AttemptInfo* reply) override;
  grpc::Status StartMove(grpc::ServerContext* context, const v1::StartMoveRequest* request,
                         grpc::ServerWriter<v1::MoveEvent>* writer) override;
  grpc::Status MeasureLink(grpc::ServerContext*, const v1::MeasureLinkRequest*, v1::MeasureLinkReply* reply) override;

 private:
  void KeepRegistered(const std::string& id);
  template <typename Call>
  v1::DecisionReply AskUntilDecided(absl::Duration timeout, Call call);

  LeaderChannel leader_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> prepared_{false};
  std::atomic<uint64_t> epoch_{1};
  std::atomic<int> starts_{0};
  mutable Mutex mu_;
  std::optional<v1::Fence> fence_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<RpcServer> server_;
  std::vector<std::thread> threads_;
};

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_INTEGRATION_ETCD_MOVING_WORKERS_H_
