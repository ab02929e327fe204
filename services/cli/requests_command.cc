// requests: what runs on one worker or on all of them.
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/names.h"
#include "services/cli/pick_worker.h"
#include "services/cli/proto_json.h"
#include "services/cli/report_error.h"
#include "services/cli/rpc.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

struct RequestsOptions {
  std::string coordinator, address;
  bool all = false, json = false;
};

struct Listing {
  std::vector<v1::RequestInfo> requests;
  std::vector<absl::Status> errors;  // workers that did not answer
};

void ListOne(const std::string& address, bool all, Listing& listing) {
  v1::ListRequestsRequest request;
  request.set_include_ended(all);
  absl::StatusOr<v1::ListRequestsReply> reply =
      Peer<v1::Generation>("worker", address).Call(&v1::Generation::Stub::ListRequests, request);
  if (!reply.ok()) {
    listing.errors.push_back(reply.status());
    return;
  }
  listing.requests.insert(listing.requests.end(), reply->requests().begin(), reply->requests().end());
}

absl::StatusOr<Listing> Collect(const RequestsOptions& o) {
  Listing listing;
  if (!o.address.empty()) {
    ListOne(o.address, o.all, listing);
    if (!listing.errors.empty()) return listing.errors[0];
    return listing;
  }
  if (o.coordinator.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     "give --coordinator, or --address (a worker)");
  }
  absl::StatusOr<v1::ListWorkersReply> workers =
      Peer<v1::Coordinator>("coordinator", o.coordinator)
          .Call(&v1::Coordinator::Stub::ListWorkers, v1::ListWorkersRequest());
  RETURN_IF_ERROR(workers.status());
  for (const v1::WorkerInfo& w : workers->workers()) ListOne(ClientAddress(w), o.all, listing);
  return listing;
}

int64_t Rebuilt(const v1::RequestInfo& r) {
  int64_t tokens = 0;
  for (const v1::Provenance& p : r.provenance()) {
    if (!p.predictor_set().empty()) tokens += p.range().end() - p.range().begin();
  }
  return tokens;
}

std::string Text(const Listing& listing) {
  if (listing.requests.empty()) return "no requests\n";
  Table table({"REQUEST", "WORKER", "STATE", ">EPOCH", ">PROMPT", ">OUTPUT", ">MAX", ">CELLS", ">REBUILT",
               ">AGE", "MOVED TO"});
  for (const v1::RequestInfo& r : listing.requests) {
    std::string state = ShortName(r.state());
    if (r.state() == v1::REQUEST_STATE_FINISHED) state += " " + ShortName(r.finish_reason());
    table.Add({r.request_id(), r.worker_id(), state, std::to_string(r.epoch()),
               std::to_string(r.prompt_tokens()), std::to_string(r.output_tokens()),
               std::to_string(r.max_tokens()), std::to_string(r.n_kv()), std::to_string(Rebuilt(r)),
               HumanSeconds(r.age_seconds()), r.moved_to()});
  }
  return table.ToString();
}

int RunRequests(Context& context, const RequestsOptions& o) {
  absl::StatusOr<Listing> listing = Collect(o);
  if (!listing.ok()) return ReportFailure(context, listing.status(), o.json);
  if (o.json) {
    Json requests = Json::array(), errors = Json::array();
    for (const v1::RequestInfo& r : listing->requests) requests.push_back(ToJson(r));
    for (const absl::Status& e : listing->errors) errors.push_back(ErrorJson(e));
    context.out << Json({{"requests", requests}, {"errors", errors}}).dump() << "\n";
  } else {
    context.out << Text(*listing);
    for (const absl::Status& e : listing->errors) PrintError(context.err, e, false);
  }
  return listing->errors.empty() ? kExitOk : ExitCodeFor(listing->errors[0]);
}

}  // namespace

void AddRequestsCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<RequestsOptions>();
  CLI::App* command = AddCommand(app, "requests", "Requests on all workers, or on one",
                                 "riskkv requests --coordinator 127.0.0.1:7070", &o->json);
  AddCoordinatorOption(*command, &o->coordinator, false);
  command->add_option("--address", o->address, "Only this worker's");
  command->add_flag("--all", o->all, "Ended and moved ones too");
  command->callback([o, &context] { context.run = [o, &context] { return RunRequests(context, *o); }; });
}

}  // namespace riskkv::cli
