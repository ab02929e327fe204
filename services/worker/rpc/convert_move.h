// What the ends of a move say to each other <-> riskkv.v1 messages.
#ifndef RISKKV_SERVICES_WORKER_RPC_CONVERT_MOVE_H_
#define RISKKV_SERVICES_WORKER_RPC_CONVERT_MOVE_H_

#include "absl/status/statusor.h"
#include "common/net/convert_move.h"
#include "riskkv/v1/coordinator.pb.h"
#include "riskkv/v1/transfer.pb.h"
#include "riskkv/v1/worker.pb.h"
#include "services/worker/core/move_types.h"

namespace riskkv::worker {

using riskkv::FromProto;  // of fences, and of what an attempt reports
using riskkv::ToProto;

v1::RoundManifest ToProto(const RoundManifest& manifest);
RoundManifest FromProto(const v1::RoundManifest& manifest);
v1::RoundReply ToProto(const RoundReply& reply);
RoundReply FromProto(const v1::RoundReply& reply);

// The payload is borrowed from `frame`.
Frame FromProto(const v1::Frame& frame);
v1::PushReply ToProto(const PushReply& reply);
PushReply FromProto(const v1::PushReply& reply);

v1::FinalRequest ToProto(const FinalRequest& request);
// INVALID_ARGUMENT naming the parameter.
absl::StatusOr<FinalRequest> FromProto(const v1::FinalRequest& request);
v1::FinalReply ToProto(const FinalReply& reply);
FinalReply FromProto(const v1::FinalReply& reply);

absl::StatusOr<ReserveParams> FromProto(const v1::ReserveRequest& request);
StartMoveParams FromProto(const v1::StartMoveRequest& request);
v1::MoveEvent ToProto(const MoveEvent& event);

// As the coordinator tells it, and as it answers.
DecisionInfo FromProto(const v1::DecideRequest& request);
DecisionInfo FromProto(const v1::DecisionReply& reply);
v1::AttemptInfo ToProto(const AttemptInfo& info, const std::string& boot_id);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_CONVERT_MOVE_H_
