// workers: who serves, who holds which predictor set, how fast the links are.
#include "riskkv/v1/calibration.grpc.pb.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/names.h"
#include "services/cli/pick_worker.h"
#include "services/cli/proto_json.h"
#include "services/cli/rpc.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

struct WorkersOptions {
  std::string coordinator;
  bool json = false;
};

std::string Join(const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "-" : text;
}

// "cpu: <device> (...)" without its notes; --json has them.
std::string BackendName(const std::string& backend) { return backend.substr(0, backend.find(':')); }

// Both where they differ: the first is for other workers.
std::string Addresses(const v1::WorkerInfo& w) {
  return ClientAddress(w) == w.address() ? w.address() : fmt::format("{} (clients: {})", w.address(), ClientAddress(w));
}

std::string WorkersTable(const v1::ListWorkersReply& reply) {
  if (reply.workers().empty()) return "no workers\n";
  Table table({"WORKER", "ADDRESS", "STATE", ">LEASE", ">CELLS", ">SLOTS", ">QUEUED", ">LOAD", ">DECODE",
               ">MOVES IN/OUT", "BACKEND", ">SETS", "MODEL"});
  for (const v1::WorkerInfo& w : reply.workers()) {
    const v1::WorkerLoad& l = w.load();
    table.Add({w.worker_id(), Addresses(w), w.serving() ? "serving" : "not serving",
               fmt::format("{:.0f} s", w.lease_remaining_seconds()),
               fmt::format("{}/{}", l.cells_used(), l.cells_total()),
               fmt::format("{}/{}", l.slots_used(), l.slots_total()), std::to_string(l.queued()),
               Percent(l.load()), HumanSeconds(w.costs().decode_s()),
               fmt::format("{}/{}", l.moves_in(), l.moves_out()), BackendName(w.backend()),
               std::to_string(w.sets_size()), w.model()});
  }
  return table.ToString();
}

std::string LinksTable(const v1::ListWorkersReply& reply) {
  if (reply.links().empty()) return "";
  Table table({"FROM", "TO", ">BANDWIDTH", ">ROUND TRIP", ">SAMPLES", ">AGE"});
  for (const v1::Link& l : reply.links()) {
    table.Add({l.source(), l.destination(), HumanRate(l.bytes_per_second()), HumanSeconds(l.rtt_seconds()),
               std::to_string(l.samples()), HumanSeconds(l.age_seconds())});
  }
  return "\n" + table.ToString();
}

// Every lossy profile with what it omits, or how many times fewer bytes it sends.
std::string ProfilesText(const v1::PredictorSetInfo& set) {
  std::string text;
  for (const v1::ProfileInfo& p : set.profiles()) {
    const bool coded = p.mode() == v1::MODE_CODED;
    if (p.omitted_layers().empty() && !coded) continue;
    double share =
        set.fingerprint().n_layer() > 0 ? 1.0 * p.omitted_layers_size() / set.fingerprint().n_layer() : 0;
    text += fmt::format("{}{} ({}{})", text.empty() ? "" : ", ", p.name(),
                        coded ? fmt::format("{:.1f}x", p.times_fewer()) : Percent(share),
                        p.gated() ? "" : ", ungated");
  }
  return text.empty() ? "-" : text;
}

std::string SetsTable(const v1::ListPredictorSetsReply& reply) {
  if (reply.sets().empty()) return "\nno predictor sets\n";
  Table table({"SET", ">BYTES", "WEIGHTS", ">GROUPS", ">MOVES", ">N*", "HELD BY", "PROFILES (OMITTED, OR TIMES FEWER)"});
  for (const v1::PredictorSetInfo& s : reply.sets()) {
    table.Add({ShortDigest(s.digest()), HumanBytes(s.file_bytes()), s.weight_type(),
               std::to_string(s.groups_size()), std::to_string(s.moves()),
               fmt::format("{:.1f}", s.break_even_moves()), Join(s.workers()), ProfilesText(s)});
  }
  return "\n" + table.ToString();
}

int RunWorkers(Context& context, const WorkersOptions& o) {
  absl::StatusOr<v1::ListWorkersReply> workers =
      Peer<v1::Coordinator>("coordinator", o.coordinator)
          .Call(&v1::Coordinator::Stub::ListWorkers, v1::ListWorkersRequest());
  if (!workers.ok()) return ReportFailure(context, workers.status(), o.json);
  absl::StatusOr<v1::ListPredictorSetsReply> sets =
      Peer<v1::Calibration>("coordinator", o.coordinator)
          .Call(&v1::Calibration::Stub::ListPredictorSets, v1::ListPredictorSetsRequest());
  if (!sets.ok()) return ReportFailure(context, sets.status(), o.json);
  if (o.json) {
    Json j = ToJson(*workers);
    j["sets"] = ToJson(*sets)["sets"];
    context.out << j.dump() << "\n";
  } else {
    context.out << WorkersTable(*workers) << LinksTable(*workers) << SetsTable(*sets);
  }
  return kExitOk;
}

}  // namespace

void AddWorkersCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<WorkersOptions>();
  CLI::App* command = AddCommand(
      app, "workers", "Workers with their load, the links between them, the predictor sets they hold",
      "riskkv workers --coordinator 127.0.0.1:7070", &o->json);
  AddCoordinatorOption(*command, &o->coordinator, true);
  command->callback([o, &context] { context.run = [o, &context] { return RunWorkers(context, *o); }; });
}

}  // namespace riskkv::cli
