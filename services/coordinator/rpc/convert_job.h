// Jobs, events and plans: records <-> riskkv.v1.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_JOB_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_JOB_H_

#include "absl/time/time.h"
#include "common/migration/records.h"
#include "common/net/convert_move.h"
#include "riskkv/v1/coordinator.pb.h"
#include "services/coordinator/core/decisions.h"
#include "services/coordinator/core/worker_api.h"

namespace riskkv::coordinator {

using riskkv::FromProto;  // of fences, and of what an attempt reports
using riskkv::ToProto;

JobSpec FromProto(const v1::MigrateRequest& request);
v1::MigrateRequest ToProto(const JobSpec& spec);
v1::Plan ToProto(const Plan& plan);
v1::MigrationEvent ToProto(const std::string& migration_id, const JobEvent& event);
v1::Outcome ToProto(const Outcome& outcome);
// `now`: for its age.
v1::Migration ToProto(const JobRecord& job, absl::Time now);
v1::DecisionReply ToProto(const DecisionReply& reply);
v1::DecideRequest ToProto(const DecideArgs& args);
MoveEvent FromProto(const v1::MoveEvent& event);

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_CONVERT_JOB_H_
