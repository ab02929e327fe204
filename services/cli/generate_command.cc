// generate: start a request, or attach to one, and stream its text wherever it runs.
#include <memory>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/generate_options.h"
#include "services/cli/interrupt.h"
#include "services/cli/pick_worker.h"
#include "services/cli/proto_json.h"
#include "services/cli/stream_printer.h"
#include "services/client/request_stream.h"

namespace riskkv::cli {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

absl::StatusOr<std::string> AddressOf(const GenerateOptions& o) {
  if (!o.address.empty()) return o.address;
  if (o.coordinator.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     "give --address (a worker) or --coordinator");
  }
  if (o.attach.empty()) return PickWorker(o.coordinator);
  client::Locator locator(o.coordinator);
  absl::StatusOr<client::Target> target = locator.Locate(o.attach, absl::Seconds(5));
  RETURN_IF_ERROR(target.status());
  return target->address;
}

absl::StatusOr<std::unique_ptr<client::RequestStream>> Open(Context& context, const GenerateOptions& o) {
  ASSIGN_OR_RETURN(std::string address, AddressOf(o));
  client::StreamOptions options;
  options.coordinator = o.coordinator;
  if (!o.attach.empty()) {
    return client::RequestStream::Attach(address, o.attach, o.from_index, 0, options, &context.clock);
  }
  ASSIGN_OR_RETURN(v1::GenerateRequest request, BuildGenerateRequest(o));
  return client::RequestStream::Generate(address, request, options, &context.clock);
}

// Reads to the end. With --detach only to the request's id.
absl::Status Follow(client::RequestStream& stream, const GenerateOptions& o, StreamPrinter& printer) {
  while (true) {
    absl::StatusOr<client::StreamItem> item = stream.Next(kPoll);
    if (Interrupted()) {
      stream.CancelRequest().IgnoreError();
      return absl::CancelledError("interrupted: the request was cancelled");
    }
    if (!item.ok() && item.status().code() == absl::StatusCode::kDeadlineExceeded) continue;
    RETURN_IF_ERROR(item.status());
    printer.Print(*item);
    if (o.detach && std::holds_alternative<client::StartedEvent>(*item)) return absl::OkStatus();
    if (std::holds_alternative<client::FinishedEvent>(*item)) return absl::OkStatus();
  }
}

int RunGenerate(Context& context, const GenerateOptions& o) {
  CatchInterrupts();
  absl::StatusOr<std::unique_ptr<client::RequestStream>> stream = Open(context, o);
  if (!stream.ok()) return ReportFailure(context, stream.status(), o.json);
  StreamPrinter printer(context.out, context.err, o.json || o.detach, o.quiet || o.json);
  absl::Status status = Follow(**stream, o, printer);
  printer.End();
  if (o.detach && status.ok()) {
    context.out << (o.json ? Json({{"request_id", (*stream)->request_id()}}).dump() : (*stream)->request_id())
                << "\n";
    return kExitOk;
  }
  if (!status.ok()) {
    if (!o.json && !(*stream)->request_id().empty()) {
      context.err << fmt::format("request {} reached index {}\n", (*stream)->request_id(),
                                 (*stream)->merger().next_index());
    }
    return ReportFailure(context, status, o.json);
  }
  if (o.json)
    context.out << printer.Summary(**stream).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  return kExitOk;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* command = AddCommand(
      app, "generate", "Generate text on a worker and follow the request wherever it moves",
      "riskkv generate --address 127.0.0.1:7071 --prompt 'Once upon a time' --max-tokens 64", &o->json);
  AddGenerateOptions(*command, *o);
  command->callback([o, &context] { context.run = [o, &context] { return RunGenerate(context, *o); }; });
}

}  // namespace riskkv::cli
