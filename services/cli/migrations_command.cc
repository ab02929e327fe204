// migrations list | show | cancel, and watch.
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/interrupt.h"
#include "services/cli/migration_text.h"
#include "services/cli/names.h"
#include "services/cli/proto_json.h"
#include "services/cli/rpc.h"
#include "services/cli/table.h"
#include "services/client/migration_follower.h"

namespace riskkv::cli {
namespace {

struct MigrationsOptions {
  std::string coordinator, id, request;
  bool json = false, active = false;
  int limit = 0;
  uint64_t after = 0;
};

std::string ListText(const v1::ListMigrationsReply& reply) {
  if (reply.migrations().empty()) return "no migrations\n";
  Table table({"MIGRATION", "REQUEST", "FROM", "TO", "MODE", "STATE", ">ATTEMPTS", ">PAUSE", ">BYTES", ">AGE",
               "REASON"});
  for (const v1::Migration& m : reply.migrations()) {
    const v1::Outcome& o = m.outcome();
    bool moved = o.state() == v1::MIGRATION_STATE_SUCCEEDED;
    v1::Mode mode = o.mode() != v1::MODE_UNSPECIFIED ? o.mode() : m.request().mode();
    table.Add({m.migration_id(), m.request().request_id(), m.source(), m.destination(), ShortName(mode),
               ShortName(m.state()) + (m.in_doubt() ? " (in doubt)" : ""), std::to_string(m.attempts()),
               moved ? HumanMs(o.pause_ms()) : "-", o.has_stats() ? HumanBytes(o.stats().bytes_sent()) : "-",
               HumanSeconds(m.age_seconds()), o.has_error() ? ShortName(o.error().reason()) : ""});
  }
  return table.ToString();
}

int RunList(Context& context, const MigrationsOptions& o) {
  Peer<v1::Coordinator> coordinator("coordinator", o.coordinator);
  v1::ListMigrationsRequest request;
  request.set_active_only(o.active);
  request.set_request_id(o.request);
  request.set_limit(o.limit);
  absl::StatusOr<v1::ListMigrationsReply> reply =
      coordinator.Call(&v1::Coordinator::Stub::ListMigrations, request);
  if (!reply.ok()) return ReportFailure(context, reply.status(), o.json);
  context.out << (o.json ? ToJson(*reply).dump() + "\n" : ListText(*reply));
  return kExitOk;
}

int Print(Context& context, const absl::StatusOr<v1::Migration>& migration, bool json) {
  if (!migration.ok()) return ReportFailure(context, migration.status(), json);
  context.out << (json ? ToJson(*migration).dump() + "\n" : MigrationText(*migration));
  return kExitOk;
}

int RunShow(Context& context, const MigrationsOptions& o) {
  v1::GetMigrationRequest request;
  request.set_migration_id(o.id);
  return Print(
      context,
      Peer<v1::Coordinator>("coordinator", o.coordinator).Call(&v1::Coordinator::Stub::GetMigration, request),
      o.json);
}

int RunCancel(Context& context, const MigrationsOptions& o) {
  v1::CancelMigrationRequest request;
  request.set_migration_id(o.id);
  return Print(context,
               Peer<v1::Coordinator>("coordinator", o.coordinator)
                   .Call(&v1::Coordinator::Stub::CancelMigration, request),
               o.json);
}

int RunWatch(Context& context, const MigrationsOptions& o) {
  client::MigrationFollower follower(o.coordinator);
  OnInterrupt stop([&] { follower.Stop(); });
  absl::StatusOr<v1::Outcome> outcome = follower.Watch(o.id, o.after, [&](const v1::MigrationEvent& event) {
    context.out << (o.json ? ToJson(event).dump() : EventLine(event)) << "\n" << std::flush;
  });
  if (!outcome.ok()) return ReportFailure(context, outcome.status(), o.json);
  return ExitCodeFor(*outcome);
}

using Run = int (*)(Context&, const MigrationsOptions&);

CLI::App* AddOne(CLI::App& parent, Context& context, const std::string& name, const std::string& description,
                 const std::string& example, Run run, std::shared_ptr<MigrationsOptions> o) {
  CLI::App* command = AddCommand(parent, name, description, example, &o->json);
  AddCoordinatorOption(*command, &o->coordinator, true);
  command->callback([o, run, &context] { context.run = [o, run, &context] { return run(context, *o); }; });
  return command;
}

}  // namespace

void AddMigrationsCommand(CLI::App& app, Context& context) {
  CLI::App* group = AddCommand(app, "migrations", "The coordinator's migrations: list, show, cancel",
                               "riskkv migrations list --coordinator 127.0.0.1:7070 --active", nullptr);
  group->require_subcommand(1);
  auto list = std::make_shared<MigrationsOptions>();
  CLI::App* command = AddOne(*group, context, "list", "Newest first",
                             "riskkv migrations list --coordinator 127.0.0.1:7070 --active", RunList, list);
  command->add_flag("--active", list->active, "Only those that are not terminal");
  command->add_option("--request", list->request, "Only those of this request");
  command->add_option("--limit", list->limit, "At most so many (default 100)");
  auto show = std::make_shared<MigrationsOptions>();
  AddOne(*group, context, "show", "One migration with its events",
         "riskkv migrations show 77aa01 --coordinator 127.0.0.1:7070", RunShow, show)
      ->add_option("id", show->id, "Migration id")
      ->required();
  auto cancel = std::make_shared<MigrationsOptions>();
  AddOne(*group, context, "cancel", "Stop a migration that is not committed; the source goes on",
         "riskkv migrations cancel 77aa01 --coordinator 127.0.0.1:7070", RunCancel, cancel)
      ->add_option("id", cancel->id, "Migration id")
      ->required();
}

void AddWatchCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<MigrationsOptions>();
  CLI::App* command = AddOne(app, context, "watch", "Follow the events of a migration to its end",
                             "riskkv watch 77aa01 --coordinator 127.0.0.1:7070", RunWatch, o);
  command->add_option("id", o->id, "Migration id")->required();
  command->add_option("--after", o->after, "Only events with a higher number (default: all)");
}

}  // namespace riskkv::cli
