// health and version.
#include "common/base/status.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/health_check.h"
#include "services/cli/proto_json.h"

namespace riskkv::cli {
namespace {

struct HealthOptions {
  std::string address, service;
  double timeout = 5;
  bool json = false;
};

int RunHealth(Context& context, const HealthOptions& o) {
  absl::StatusOr<std::string> status = CheckHealth(o.address, o.service, absl::Seconds(o.timeout));
  if (!status.ok()) return ReportFailure(context, status.status(), o.json);
  if (o.json) {
    context.out << Json({{"address", o.address}, {"service", o.service}, {"status", *status}}).dump() << "\n";
  } else {
    context.out << *status << "\n";
  }
  return *status == "SERVING" ? kExitOk : kExitUnavailable;
}

}  // namespace

void AddHealthCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<HealthOptions>();
  CLI::App* command =
      AddCommand(app, "health", "Ask a coordinator or worker whether it serves; exit code 0 when it does",
                 "riskkv health --address 127.0.0.1:7071", &o->json);
  command->add_option("--address", o->address, "host:port")->required();
  command->add_option("--service", o->service,
                      "One service, e.g. riskkv.v1.Worker (default: the whole process)");
  command->add_option("--timeout", o->timeout, "Seconds to wait")->capture_default_str();
  command->callback([o, &context] { context.run = [o, &context] { return RunHealth(context, *o); }; });
}

void AddVersionCommand(CLI::App& app, Context& context) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = AddCommand(app, "version", "Versions of this tool and what it is built on",
                                 "riskkv version", json.get());
  command->callback([json, &context] {
    context.run = [json, &context] {
      Json j = {
          {"riskkv", RISKKV_VERSION}, {"protocol", 1}, {"grpc", grpc::Version()}, {"compiler", __VERSION__}};
      if (*json) {
        context.out << j.dump() << "\n";
      } else {
        context.out << fmt::format("riskkv {} (protocol 1, gRPC {})\n", RISKKV_VERSION, grpc::Version());
      }
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace riskkv::cli
