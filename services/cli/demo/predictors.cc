#include "services/cli/demo/predictors.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <tuple>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/predictor_set.h"
#include "fmt/format.h"
#include "services/cli/demo/child_process.h"
#include "services/cli/interrupt.h"

namespace riskkv::cli {
namespace {

namespace fs = std::filesystem;

std::string CacheRoot() {
  if (const char* own = std::getenv("RISKKV_CACHE")) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME")) return std::string(xdg) + "/riskkv";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/riskkv";
}

bool HasSet(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == PredictorSet::kExtension) return true;
  }
  return false;
}

absl::StatusOr<std::string> Folder(const DemoOptions& o, const std::string& work) {
  if (!o.predictors.empty()) return o.predictors;
  if (o.recalibrate || o.engine != "llama") return work + "/predictors";
  // The model's digest is in the path: another model's set is never taken for this one's.
  ASSIGN_OR_RETURN(std::string digest, Sha256File(o.model));
  return CacheRoot() + "/predictors/" + digest.substr(0, 16);
}

std::vector<std::string> CalibrateArguments(const DemoOptions& o, const std::string& folder) {
  std::vector<std::string> argv = {"/proc/self/exe", "calibrate", "--engine",
                                   o.engine,         "--out",     folder + "/"};
  if (!o.model.empty()) argv.insert(argv.end(), {"--model", o.model});
  if (!o.fit.empty()) argv.insert(argv.end(), {"--fit", o.fit, "--select", o.select});
  if (!o.confirm.empty()) argv.insert(argv.end(), {"--confirm", o.confirm});
  if (o.seconds > 0) argv.insert(argv.end(), {"--seconds", fmt::format("{:.0f}", o.seconds)});
  return argv;
}

// As a process of its own: its gigabytes go when it ends, and it may restart itself for a better BLAS kernel.
absl::Status Calibrate(const DemoOptions& o, const std::string& folder) {
  absl::StatusOr<std::unique_ptr<ChildProcess>> child =
      ChildProcess::Start({CalibrateArguments(o, folder), "", ""});
  RETURN_IF_ERROR(child.status());
  bool told = false;
  while (!(*child)->Poll()) {
    if (Interrupted() && !told) {
      (*child)->Signal(SIGINT);  // it leaves no half file behind
      told = true;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  if (told) return absl::CancelledError("interrupted while calibrating");
  int code = *(*child)->Poll();
  if (code == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "PREDICTOR_MISSING",
                   fmt::format("'riskkv calibrate' ended with exit code {}; what it said is above", code));
}

}  // namespace

absl::StatusOr<std::string> EnsurePredictors(const DemoOptions& o, const std::string& work,
                                             Narrator& narrator) {
  ASSIGN_OR_RETURN(std::string folder, Folder(o, work));
  if (HasSet(folder)) {
    narrator.Step(fmt::format("Predictor set: found in {}", folder));
    return folder;
  }
  if (o.engine == "llama" && (o.fit.empty() || o.select.empty())) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "PREDICTOR_MISSING",
        fmt::format("no predictor set in {}: give --fit and --select (or --text-dir) to calibrate one",
                    folder));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::InternalError(fmt::format("cannot create {}: {}", folder, error.message()));
  narrator.Step(fmt::format("Predictor set: none in {}, calibrating one (about {:.0f} s; once a model)",
                            folder, o.seconds));
  RETURN_IF_ERROR(Calibrate(o, folder));
  return folder;
}

absl::StatusOr<ProfileChoice> ChooseProfile(
    const google::protobuf::RepeatedPtrField<v1::PredictorSetInfo>& sets) {
  const v1::PredictorSetInfo* best_set = nullptr;
  const v1::ProfileInfo* best = nullptr;
  auto rank = [](const v1::ProfileInfo& p) {
    return std::make_tuple(p.gated(), p.gated() ? p.omitted_layers_size() : 0, -p.mean());
  };
  for (const v1::PredictorSetInfo& set : sets) {
    for (const v1::ProfileInfo& p : set.profiles()) {
      if (p.omitted_layers().empty() || (best != nullptr && rank(p) <= rank(*best))) continue;
      best = &p;
      best_set = &set;
    }
  }
  if (best == nullptr) {
    return MakeError(
        absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
        fmt::format("none of the {} predictor sets the workers hold has a profile that omits a layer",
                    sets.size()));
  }
  return ProfileChoice{*best_set, *best};
}

}  // namespace riskkv::cli
