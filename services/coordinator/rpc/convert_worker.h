// Workers and predictor sets: plain structs <-> riskkv.v1.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_WORKER_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_WORKER_H_

#include "common/cost/links.h"
#include "riskkv/v1/coordinator.pb.h"
#include "riskkv/v1/generation.pb.h"
#include "services/coordinator/core/worker_registry.h"
#include "services/coordinator/core/worker_types.h"

namespace riskkv::coordinator {

WorkerInfo FromProto(const v1::WorkerInfo& worker);
WorkerLoad FromProto(const v1::WorkerLoad& load);
WorkerCosts FromProto(const v1::WorkerCosts& costs);
SetInfo FromProto(const v1::PredictorSetInfo& set);
RequestInfo FromProto(const v1::RequestInfo& request);
LeaseRenewal FromProto(const v1::LeaseRenewal& renewal);

// Without the coordinator's own fields (holders, moves, N*).
v1::PredictorSetInfo ToProto(const SetInfo& set);
v1::WorkerInfo ToProto(const RegisteredWorker& worker);
v1::Link ToProto(const cost::LinkEstimate& link);

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_WORKER_H_
