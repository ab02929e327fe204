// Running the three commands: see commands.h.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/base/status.h"
#include "common/kv/convert.h"
#include "common/predictor/selection_set.h"
#include "fmt/format.h"
#include "services/calibrate/commands.h"
#include "services/calibrate/engine_factory.h"
#include "services/calibrate/interrupt.h"
#include "services/calibrate/progress_line.h"
#include "services/calibrate/report.h"
#include "services/calibrate/tables.h"

namespace riskkv::calibrate {
namespace {

int Fail(std::string_view command, const absl::Status& status) {
  if (absl::IsCancelled(status)) {
    fmt::print(stderr, "riskkv {}: interrupted, nothing written{}\n", command,
               status.message() == "interrupted" ? "" : "; " + std::string(status.message().data(), status.message().size()));
    return kExitInterrupted;
  }
  const std::string reason = ReasonOf(status);
  fmt::print(stderr, "riskkv {}: {}{}\n", command,
             std::string(status.message().data(), status.message().size()),
             reason.empty() ? "" : " [" + reason + "]");
  return ExitCodeFor(status);
}

absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeBackend(int threads) {
  std::unique_ptr<kernels::Backend> backend;
  RETURN_IF_ERROR(ToAbsl(kernels::CreateBackend(kernels::BackendChoice::kCpu, threads, &backend)));
  return backend;
}

absl::Status CheckOptions(const CalibrateOptions& o) {
  if (o.dtype != "fp32" && o.dtype != "fp16")
    return absl::InvalidArgumentError(fmt::format("--dtype {} (fp32, fp16)", o.dtype));
  if (o.shape.history < 2 || o.shape.horizon < 1) {
    return absl::InvalidArgumentError(
        fmt::format("--history {} and --horizon {} make no window", o.shape.history, o.shape.horizon));
  }
  if (o.ends.first < 0 || o.ends.last < 0) return absl::InvalidArgumentError("--ends must not be negative");
  if (o.resamples < 100)
    return absl::InvalidArgumentError(fmt::format("--resamples {} (at least 100)", o.resamples));
  for (double e : o.epsilons) {
    if (!(e > 0)) return absl::InvalidArgumentError(fmt::format("--epsilon {} is not positive", e));
  }
  return absl::OkStatus();
}

// The fake engine's predictors are known: nothing is fitted and no text is read.
absl::StatusOr<std::string> WriteSelectionSet(const CalibrateOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, MakeEngine(options.engine, 1024));
  const kernels::WeightType type =
      options.dtype == "fp16" ? kernels::WeightType::kF16 : kernels::WeightType::kF32;
  ASSIGN_OR_RETURN(const std::string bytes, SelectionSetBytes(engine->facts(), options.ends, type));
  return WritePredictorSet(bytes, options.out);
}

int Longest(const WindowShape& shape, const std::vector<int>& histories) {
  int longest = shape.history;
  for (int history : histories) longest = std::max(longest, history);
  return longest;
}

// Where an interrupted run is gone on from; empty where it is not.
std::string WorkFolder(const CalibrateOptions& options) {
  if (!options.work_dir.empty() || options.report.empty()) return options.work_dir;
  return (std::filesystem::path(options.report) / "work").string();
}

absl::Status Calibrate(const CalibrateOptions& asked) {
  CalibrateOptions options = asked;
  options.engine.threads = ResolveThreads(options.engine.threads);
  options.work_dir = WorkFolder(asked);
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.engine.kind == "fake") {
    ASSIGN_OR_RETURN(const std::string path, WriteSelectionSet(options));
    ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(path));
    fmt::print("{}\n", options.json ? nlohmann::json({{"path", path}, {"set", SetJson(*set)}}).dump(2)
                                    : SetTable(*set));
    return absl::OkStatus();
  }
  if (options.fit.empty() || options.select.empty())
    return absl::InvalidArgumentError("--fit and --select name the texts");
  ASSIGN_OR_RETURN(const Splits splits, ReadSplits(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeEngine(options.engine, Longest(options.shape, options.histories) + options.shape.horizon + 64));
  ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> backend, MakeBackend(options.engine.threads));
  RealClock clock;
  InterruptGuard guard(*engine);
  ProgressLine progress(clock);
  Calibrator calibrator(*engine, *backend, options, clock, progress);
  absl::StatusOr<CalibrationResult> run = calibrator.Run(splits);
  if (absl::IsCancelled(run.status()) && !options.work_dir.empty())
    return absl::CancelledError("the same command goes on from what is in " + options.work_dir);
  ASSIGN_OR_RETURN(const CalibrationResult result, std::move(run));
  RETURN_IF_ERROR(progress.Check());
  ASSIGN_OR_RETURN(const std::string path, WritePredictorSet(result.bytes, options.out));
  if (!options.report.empty()) {
    const ReportInput input{options, splits, result, engine->facts()};
    ASSIGN_OR_RETURN(const std::string missing, WriteReport(input, options.report));
    if (!missing.empty()) fmt::print(stderr, "riskkv calibrate: {}\n", missing);
    std::error_code error;
    // The folder was for this run alone, unless it was asked for by name.
    if (asked.work_dir.empty()) std::filesystem::remove_all(options.work_dir, error);
  }
  fmt::print("{}\n", options.json ? CalibrationJson(result, path).dump(2) : CalibrationTable(result, path));
  if (!options.report.empty() && !options.json)
    fmt::print("report: {}\n", (std::filesystem::path(options.report) / "index.html").string());
  return absl::OkStatus();
}

absl::Status EvaluateSet(const EvaluateOptions& asked) {
  EvaluateOptions options = asked;
  options.engine.threads = ResolveThreads(options.engine.threads);
  // What is cheap to refuse comes before the model is loaded.
  ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(options.predictors));
  if (!options.profile.empty()) {
    if (auto found = set->FindProfile(options.profile); !found.ok()) return found.status();
  }
  ASSIGN_OR_RETURN(const TextFile text, ReadArticles(options.text));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeEngine(options.engine, Longest(options.shape, options.histories) + options.shape.horizon + 64));
  ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> backend, MakeBackend(options.engine.threads));
  RealClock clock;
  InterruptGuard guard(*engine);
  ProgressLine progress(clock);
  ASSIGN_OR_RETURN(const std::vector<Evaluation> evaluations,
                   EvaluateHistories(*engine, *backend, *set, text, options, progress));
  if (options.json) {
    fmt::print("{}\n", ToJson(evaluations).dump(2));
  } else {
    for (const Evaluation& e : evaluations) fmt::print("{}", EvaluationTable(e));
  }
  return absl::OkStatus();
}

absl::Status Inspect(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(options.predictors));
  if (options.json)
    fmt::print("{}\n", SetJson(*set).dump(2));
  else
    fmt::print("{}", SetTable(*set));
  return absl::OkStatus();
}

}  // namespace

int RunCalibrate(const CalibrateOptions& options) {
  const absl::Status status = Calibrate(options);
  return status.ok() ? kExitOk : Fail("calibrate", status);
}

int RunEvaluate(const EvaluateOptions& options) {
  const absl::Status status = EvaluateSet(options);
  return status.ok() ? kExitOk : Fail("evaluate", status);
}

int RunInspect(const InspectOptions& options) {
  const absl::Status status = Inspect(options);
  return status.ok() ? kExitOk : Fail("inspect", status);
}

}  // namespace riskkv::calibrate
