// What a worker says of itself: Describe, registration and lease renewals draw from here.
#ifndef RISKKV_SERVICES_WORKER_RPC_DESCRIBE_H_
#define RISKKV_SERVICES_WORKER_RPC_DESCRIBE_H_

#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "riskkv/v1/worker.pb.h"
#include "services/worker/core/move_incoming_table.h"
#include "services/worker/core/move_outgoing_table.h"
#include "services/worker/core/predictor_store.h"
#include "services/worker/core/readiness.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

struct WorkerIdentity {
  std::string worker_id;
  std::string boot_id;
  std::string version;
  int moves_limit = 8;
};

v1::PredictorSetInfo ToProto(const LoadedSet& loaded);

// Thread-safe. The pointers must outlive it.
class Describer {
 public:
  Describer(WorkerIdentity identity, RequestManager* manager, PredictorStore* predictors, IncomingMoves* incoming, OutgoingMoves* outgoing,
            const Clock* clock, const Readiness* readiness);

  // Where peers and clients reach it: known once the server listens.
  void SetAddress(std::string address, std::string client_address);
  v1::WorkerInfo Info() const;
  v1::WorkerLoad Load() const;
  v1::WorkerCosts Costs() const;
  bool Serving() const { return readiness_->WhyNot().empty(); }
  const WorkerIdentity& identity() const { return identity_; }
  const PredictorStore& predictors() const { return *predictors_; }

 private:
  const WorkerIdentity identity_;
  RequestManager* const manager_;
  PredictorStore* const predictors_;
  IncomingMoves* const incoming_;
  OutgoingMoves* const outgoing_;
  const Clock* const clock_;
  const Readiness* const readiness_;
  const absl::Duration started_;
  mutable Mutex mu_;
  std::string address_ ABSL_GUARDED_BY(mu_);
  std::string client_address_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_DESCRIBE_H_
