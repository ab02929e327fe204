// migrate and plan: the same question, with and without moving.
#include <optional>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/interrupt.h"
#include "services/cli/migration_text.h"
#include "services/cli/names.h"
#include "services/cli/proto_json.h"
#include "services/cli/rpc.h"
#include "services/client/migration_follower.h"

namespace riskkv::cli {
namespace {

struct MigrateOptions {
  std::string coordinator, request, to, from, mode = "auto", id, set, profile, on_failure = "stay", reason;
  uint64_t epoch = 0;
  int64_t max_pause_ms = 0, deadline_ms = 0;
  bool allow_lossy = false, allow_ungated = false, must_move = false, wait = true, json = false;
};

void AddOptions(CLI::App& command, MigrateOptions& o) {
  AddCoordinatorOption(command, &o.coordinator, true);
  command.add_option("--request", o.request, "Request to move")->required();
  command.add_option("--to", o.to, "Worker it goes to")->required();
  command.add_option("--from", o.from, "Worker it must be on; checked when given");
  command.add_option("--mode", o.mode, "auto | risk | coded | full | replay")->capture_default_str();
  command.add_flag("--allow-lossy", o.allow_lossy,
                   "Allow a cache that is rebuilt or coded within the profile's gate (needed by risk and coded)");
  command.add_option("--set", o.set,
                     "Predictor set by digest (default: any gated set both sides hold or can fetch)");
  command.add_option("--profile", o.profile, "Profile of the set (default: the gated one that omits most or sends least)");
  command.add_flag("--allow-ungated", o.allow_ungated,
                   "Allow a profile that passed no gate (demonstrations)");
  command.add_option("--epoch", o.epoch,
                     "The request's epoch you mean to move (default: asked of the coordinator)");
  command.add_option("--id", o.id,
                     "Migration id, the key under which a retry is the same job (default: random)");
  command.add_option("--max-pause-ms", o.max_pause_ms, "Longest pause the stream may see (default 200)");
  command.add_option("--deadline-ms", o.deadline_ms, "For the whole job (default 30000)");
  command.add_option("--on-failure", o.on_failure, "stay | replay | fail: what follows when a mode fails")
      ->capture_default_str();
  command.add_flag("--must-move", o.must_move, "auto: staying is no alternative (drain)");
  command.add_option("--reason", o.reason, "For the records: LOAD, DRAIN, ...");
}

absl::StatusOr<v1::MigrateRequest> BuildRequest(const Peer<v1::Coordinator>& coordinator,
                                                const MigrateOptions& o) {
  v1::MigrateRequest r;
  ASSIGN_OR_RETURN(v1::Mode mode, ParseMode(o.mode));
  ASSIGN_OR_RETURN(v1::MigrateRequest::OnFailure on_failure, ParseOnFailure(o.on_failure));
  r.set_migration_id(o.id.empty() ? RandomHex(8) : o.id);
  r.set_request_id(o.request);
  r.set_source(o.from);
  r.set_destination(o.to);
  r.set_mode(mode);
  r.set_allow_lossy(o.allow_lossy);
  r.set_predictor_set(o.set);
  r.set_profile(o.profile);
  r.set_max_pause_ms(o.max_pause_ms);
  r.set_deadline_ms(o.deadline_ms);
  r.set_on_failure(on_failure);
  r.set_reason(o.reason);
  r.set_must_move(o.must_move);
  r.set_allow_ungated(o.allow_ungated);
  r.set_expected_epoch(o.epoch);
  if (o.epoch == 0) {
    v1::LocateRequest locate;
    locate.set_request_id(o.request);
    ASSIGN_OR_RETURN(v1::LocateReply located, coordinator.Call(&v1::Coordinator::Stub::Locate, locate));
    r.set_expected_epoch(located.epoch());
  }
  return r;
}

// As ReportFailure, and what a refusal means for the request: it was not touched.
int ReportRefusal(Context& context, const absl::Status& status, bool json) {
  int code = ReportFailure(context, status, json);
  std::optional<ErrorDetail> detail = GetDetail(status);
  bool refused = detail && detail->stage.empty() && !detail->in_doubt && detail->source_still_serving &&
                 detail->reason != "UNKNOWN_REQUEST" && !absl::IsUnavailable(status) &&
                 !absl::IsCancelled(status);
  if (refused && !json) context.err << "  nothing was moved: the request goes on where it is\n";
  return code;
}

int StartOnly(Context& context, const Peer<v1::Coordinator>& coordinator, const v1::MigrateRequest& request,
              bool json) {
  absl::StatusOr<v1::Migration> started = coordinator.Call(&v1::Coordinator::Stub::StartMigration, request);
  if (!started.ok()) return ReportRefusal(context, started.status(), json);
  if (json) {
    context.out << ToJson(*started).dump() << "\n";
  } else {
    context.out << started->migration_id() << "\n";
  }
  return kExitOk;
}

int RunMigrate(Context& context, const MigrateOptions& o) {
  Peer<v1::Coordinator> coordinator("coordinator", o.coordinator);
  absl::StatusOr<v1::MigrateRequest> request = BuildRequest(coordinator, o);
  if (!request.ok()) return ReportFailure(context, request.status(), o.json);
  if (!o.wait) return StartOnly(context, coordinator, *request, o.json);
  if (!o.json)
    context.out << fmt::format("migration {}: {} to {}\n", request->migration_id(), o.request, o.to)
                << std::flush;
  client::MigrationFollower follower(o.coordinator);
  OnInterrupt stop([&] { follower.Stop(); });
  absl::StatusOr<v1::Outcome> outcome = follower.Migrate(*request, [&](const v1::MigrationEvent& event) {
    context.out << (o.json ? ToJson(event).dump() : EventLine(event)) << "\n" << std::flush;
  });
  if (!outcome.ok()) return ReportRefusal(context, outcome.status(), o.json);
  return ExitCodeFor(*outcome);
}

int RunPlan(Context& context, const MigrateOptions& o) {
  Peer<v1::Coordinator> coordinator("coordinator", o.coordinator);
  absl::StatusOr<v1::MigrateRequest> request = BuildRequest(coordinator, o);
  if (!request.ok()) return ReportFailure(context, request.status(), o.json);
  absl::StatusOr<v1::Plan> plan = coordinator.Call(&v1::Coordinator::Stub::PlanMigration, *request);
  if (!plan.ok()) return ReportFailure(context, plan.status(), o.json);
  context.out << (o.json ? ToJson(*plan).dump() + "\n" : PlanText(*plan));
  return kExitOk;
}

}  // namespace

void AddMigrateCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<MigrateOptions>();
  CLI::App* command = AddCommand(
      app, "migrate", "Move a running request to another worker",
      "riskkv migrate --coordinator 127.0.0.1:7070 --request 4f..-9a.. --to b --mode risk --allow-lossy",
      &o->json);
  AddOptions(*command, *o);
  command->add_flag("--wait,!--no-wait", o->wait,
                    "Follow the events to the end (default); --no-wait prints the id only");
  command->callback([o, &context] { context.run = [o, &context] { return RunMigrate(context, *o); }; });
}

void AddPlanCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<MigrateOptions>();
  CLI::App* command = AddCommand(
      app, "plan", "What each way of moving a request would cost, and why the losers lose; moves nothing",
      "riskkv plan --coordinator 127.0.0.1:7070 --request 4f..-9a.. --to b --allow-lossy", &o->json);
  AddOptions(*command, *o);
  command->callback([o, &context] { context.run = [o, &context] { return RunPlan(context, *o); }; });
}

}  // namespace riskkv::cli
