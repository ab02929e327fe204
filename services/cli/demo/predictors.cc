#include "services/cli/demo/predictors.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/codec/selection_codec.h"
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

// "" when there is none.
std::string AnySet(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == PredictorSet::kExtension) return entry.path().string();
  }
  return "";
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
  return argv;
}

// Few windows, as the paper's profiles get in their time: about three minutes of SmolLM2 on two cores.
std::vector<std::string> CodedArguments(const DemoOptions& o, const std::string& folder, const std::string& base) {
  std::vector<std::string> argv = CalibrateArguments(o, folder);
  argv.insert(argv.end(), {"--method", "coded", "--base", base, "--windows-fit", "20", "--windows-select", "8",
                           "--windows-confirm", "8", "--windows-sensitivity", "0", "--codec-weights", "fp16", "--horizon",
                           "128"});
  return argv;
}

// As a process of its own: its gigabytes go when it ends, and it may restart itself for a better BLAS kernel.
absl::Status Calibrate(std::vector<std::string> arguments) {
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start({std::move(arguments), "", ""});
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

// The set in `folder` gets coded profiles: another file, which takes its place.
absl::Status AddCoded(const DemoOptions& o, const std::string& folder) {
  const std::string base = AnySet(folder);
  if (o.engine == "llama") {
    RETURN_IF_ERROR(Calibrate(CodedArguments(o, folder, base)));
  } else {
    ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(base));
    ASSIGN_OR_RETURN(const std::string bytes, WithSelectionCodec(*set));
    RETURN_IF_ERROR(WritePredictorSet(bytes, folder + "/").status());
  }
  std::error_code ignored;
  fs::remove(base, ignored);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EnsurePredictors(const DemoOptions& o, const std::string& work,
                                             Narrator& narrator) {
  ASSIGN_OR_RETURN(std::string folder, Folder(o, work));
  if (!AnySet(folder).empty()) {
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
  std::vector<std::string> arguments = CalibrateArguments(o, folder);
  if (o.seconds > 0) arguments.insert(arguments.end(), {"--seconds", fmt::format("{:.0f}", o.seconds)});
  RETURN_IF_ERROR(Calibrate(std::move(arguments)));
  if (o.link_mbit == 0) return folder;
  narrator.Step("Coded profiles for that set (about three minutes; once a model)");
  // Without them there is still everything else to show.
  if (absl::Status coded = AddCoded(o, folder); !coded.ok()) {
    if (absl::IsCancelled(coded)) return coded;
    narrator.Line(fmt::format("no coded profiles: {}", std::string(coded.message())));
  }
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

absl::StatusOr<ProfileChoice> ChooseCodedProfile(const google::protobuf::RepeatedPtrField<v1::PredictorSetInfo>& sets) {
  std::optional<ProfileChoice> best;
  for (const v1::PredictorSetInfo& set : sets) {
    for (const v1::ProfileInfo& p : set.profiles()) {
      if (p.mode() != v1::MODE_CODED || !p.gated()) continue;
      if (!best || p.coded_token_bytes() < best->profile.coded_token_bytes()) best = ProfileChoice{set, p};
    }
  }
  if (best) return *std::move(best);
  return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                   fmt::format("none of the {} predictor sets the workers hold has a coded profile that passed its gate "
                               "(riskkv calibrate --method coded --base SET)",
                               sets.size()));
}

}  // namespace riskkv::cli
