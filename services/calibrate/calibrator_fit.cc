// The pass over the fit windows: see calibrator.h.
#include <algorithm>
#include <cstring>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/features.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/calibrator_work.h"

namespace riskkv::calibrate {
namespace {

// Windows between two checkpoints: the sums of SmolLM2 are 400 MB, a second to write; a window takes about two.
constexpr std::size_t kCheckpointEvery = 32;

// Digest of the first n fit windows and of which are held out.
std::string WindowsDigest(const WindowSet& set, const std::vector<bool>& held_out, std::size_t n) {
  Sha256 hash;
  for (std::size_t i = 0; i < n; ++i) {
    hash.Update(held_out[i] ? "held" : "fit");
    hash.Update(set.windows[i].tokens.data(), set.windows[i].tokens.size() * sizeof(Token));
  }
  return hash.HexDigest();
}

}  // namespace

std::string Calibrator::FitKey(const Work& work) const {
  std::string what = fmt::format("{} skip {}", EngineKey(engine_), options_.ends.first);
  for (const LayoutRun& layout : work.layouts) {
    for (const GroupSpec& g : layout.groups)
      what += fmt::format(" [{}]->[{}]", fmt::join(g.anchors, ","), fmt::join(g.targets, ","));
    what += ";";
  }
  return ResultKey("fit", what);
}

absl::Status Calibrator::AddFitWindow(Work& work, std::size_t i) {
  WindowScorer scorer(engine_);
  ASSIGN_OR_RETURN(const KvBlock cells, scorer.Prefill(work.fit.windows[i].tokens));
  ASSIGN_OR_RETURN(const PreRopeBlock rows, UndoRope(engine_.facts().fingerprint.layout, cells));
  // The first tokens are outliers (attention sinks) and never rebuilt.
  const int64_t from = std::min<int64_t>(options_.ends.first, cells.range.end);
  for (LayoutRun& layout : work.layouts) layout.fitter->Add(rows, from, cells.range.end, work.held_out[i]);
  return absl::OkStatus();
}

// The checkpoint: number of windows, digest of those windows, the sums of every layout.
absl::Status Calibrator::SaveFit(Work& work) {
  if (!work.store->persistent()) return absl::OkStatus();
  const uint64_t n = work.fitted_windows;
  const std::string digest = WindowsDigest(work.fit, work.held_out, work.fitted_windows);
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&n), sizeof(n)}, digest};
  for (const LayoutRun& layout : work.layouts) {
    const std::vector<std::string_view> sums = layout.fitter->Parts();
    parts.insert(parts.end(), sums.begin(), sums.end());
  }
  return work.store->Put(FitKey(work), parts);
}

// Takes up the kept sums when they are of the first windows of this fit; else nothing changes.
absl::Status Calibrator::RestoreFit(Work& work) {
  if (!work.store->persistent()) return absl::OkStatus();
  const absl::StatusOr<std::string> kept = work.store->Get(FitKey(work));
  uint64_t n = 0;
  if (!kept.ok() || kept->size() < sizeof(n) + 64) return absl::OkStatus();
  std::memcpy(&n, kept->data(), sizeof(n));
  std::string_view bytes = std::string_view(*kept).substr(sizeof(n));
  if (n <= work.fitted_windows || n > work.fit.windows.size()) return absl::OkStatus();
  if (bytes.substr(0, 64) != WindowsDigest(work.fit, work.held_out, n)) return absl::OkStatus();
  bytes.remove_prefix(64);
  for (LayoutRun& layout : work.layouts) {
    if (!layout.fitter->Restore(&bytes))
      return absl::DataLossError(fmt::format("{}: a checkpoint of another shape: remove it", options_.work_dir));
  }
  work.fitted_windows = n;
  return absl::OkStatus();
}

absl::Status Calibrator::Fit(Work& work) {
  progress_.Begin("fit", static_cast<int>(work.fit.windows.size()));
  RETURN_IF_ERROR(RestoreFit(work));
  for (std::size_t i = 0; i < work.fitted_windows; ++i) progress_.Skip();
  while (work.fitted_windows < work.fit.windows.size()) {
    absl::Status status = progress_.Check();
    if (status.ok()) status = AddFitWindow(work, work.fitted_windows);
    if (absl::IsCancelled(status)) RETURN_IF_ERROR(SaveFit(work));
    RETURN_IF_ERROR(status);
    ++work.fitted_windows;
    progress_.Step();
    const bool last = work.fitted_windows == work.fit.windows.size();
    if (last || work.fitted_windows % kCheckpointEvery == 0) RETURN_IF_ERROR(SaveFit(work));
  }
  for (LayoutRun& layout : work.layouts) {
    progress_.Begin(fmt::format("solve: {}", layout.name), 0);
    if (absl::Status status = Solve(work, layout); !status.ok())
      return Annotate(status, fmt::format("layout {}", layout.name));
  }
  return progress_.Check();
}

absl::Status Calibrator::Solve(Work& work, LayoutRun& layout) {
  ASSIGN_OR_RETURN(layout.fitted, layout.fitter->Solve(DefaultLambdaGrid()));
  layout.fitter.reset();
  layout.info.layout = layout.name;
  for (FittedGroup& g : layout.fitted) {
    layout.info.groups.push_back(g.info);
    layout.tensors.push_back(g.tensors);
  }
  layout.info.profiles["exact"] = ExactProfile(options_.ends);
  ASSIGN_OR_RETURN(std::string bytes, SerializePredictorSet(engine_.facts().fingerprint, layout.info, layout.tensors,
                                                            WeightTypeOf(options_.dtype)));
  ASSIGN_OR_RETURN(layout.trial, PredictorSet::FromBytes(std::move(bytes), "the set under calibration"));
  ASSIGN_OR_RETURN(layout.uploaded, UploadedSet::Create(backend_, *layout.trial));
  return absl::OkStatus();
}

}  // namespace riskkv::calibrate
