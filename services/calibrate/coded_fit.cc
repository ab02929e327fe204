// The pass over the fit text: transforms, tables and the weight of each plane's errors (coded_calibrator.h).
#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/status.h"
#include "common/predictor/features.h"
#include "common/quality/risk.h"
#include "common/quality/scorer.h"
#include "common/quality/sensitivity.h"
#include "fmt/format.h"
#include "services/calibrate/coded_calibrator.h"

namespace riskkv::calibrate {
namespace {

// Tables are fitted at steps across the ladder, on blocks from this many windows.
constexpr float kTableSteps[] = {0.12f, 0.2f, 0.3f, 0.5f};
constexpr std::size_t kTableWindows = 6;
// Tokens scored after each noisy history: the nearest ones feel it most.
constexpr int kSensitivityHorizon = 256;
// Windows between two checkpoints.
constexpr std::size_t kCodedCheckpointEvery = 32;

}  // namespace

absl::StatusOr<CodecWeights> CodedCalibrator::Fit(const Splits& splits, CodedCalibration& result) {
  ASSIGN_OR_RETURN(const WindowSet windows, CutWindows(engine_, splits.fit, {options_.shape.history, 0}, options_.seed,
                                                       options_.windows_fit));
  result.fit_windows = static_cast<int>(windows.windows.size());
  CodecFitter fitter(engine_.facts().fingerprint.layout, Plan(), options_.engine.threads);
  RETURN_IF_ERROR(Accumulate(windows, fitter));
  ASSIGN_OR_RETURN(result.sensitivity, Weigh(splits, fitter));
  ASSIGN_OR_RETURN(CodecWeights weights, fitter.Solve(kCodecRidge, result.sensitivity));
  RETURN_IF_ERROR(RoundToHalf(weights));
  RETURN_IF_ERROR(FitTables(weights));
  return weights;
}

absl::Status CodedCalibrator::Accumulate(const WindowSet& windows, CodecFitter& fitter) {
  const std::size_t n = windows.windows.size();
  progress_.Begin("fit", static_cast<int>(n));
  ASSIGN_OR_RETURN(std::size_t done, RestoreFit(windows, fitter));
  for (std::size_t i = 0; i < done; ++i) progress_.Skip();
  while (done < n) {
    absl::Status status = progress_.Check();
    if (status.ok()) status = AddWindow(windows.windows[done], fitter);
    if (absl::IsCancelled(status)) RETURN_IF_ERROR(SaveFit(windows, done, fitter));
    RETURN_IF_ERROR(status);
    progress_.Step();
    if (++done == n || done % kCodedCheckpointEvery == 0) RETURN_IF_ERROR(SaveFit(windows, done, fitter));
  }
  return FillBlocks(windows);
}

absl::Status CodedCalibrator::AddWindow(const Window& window, CodecFitter& fitter) {
  ASSIGN_OR_RETURN(const KvBlock cells, WindowScorer(engine_).Prefill(window.tokens));
  ASSIGN_OR_RETURN(const PreRopeBlock rows, UndoRope(engine_.facts().fingerprint.layout, cells));
  // The first tokens are outliers (attention sinks) and travel by themselves.
  fitter.Add(rows, std::min<int64_t>(kCodedEnds.first, cells.range.end), cells.range.end);
  return absl::OkStatus();
}

absl::Status CodedCalibrator::FillBlocks(const WindowSet& windows) {
  WindowScorer scorer(engine_);
  for (std::size_t i = 0; i < windows.windows.size() && i < kTableWindows; ++i) {
    RETURN_IF_ERROR(progress_.Check());
    const std::span<const Token> tokens(windows.windows[i].tokens);
    const std::size_t cells = std::min<std::size_t>(tokens.size(), kCodedEnds.first + kCodedBlockTokens);
    if (cells <= static_cast<std::size_t>(kCodedEnds.first)) continue;
    ASSIGN_OR_RETURN(const KvBlock all, scorer.Prefill(tokens.first(cells)));
    ASSIGN_OR_RETURN(KvBlock block, Slice(all, {kCodedEnds.first, static_cast<int64_t>(cells)}, all.layers));
    blocks_.push_back(std::move(block));
  }
  return absl::OkStatus();
}

// Of the sums over the first n windows.
std::string CodedCalibrator::FitKey(const WindowSet& windows, std::size_t n) const {
  std::string what = fmt::format("coded {} skip {} pairs", EngineKey(engine_), kCodedEnds.first);
  for (std::size_t i = 0; i < n; ++i) what += TokensKey("", windows.windows[i].tokens);
  return what;
}

absl::Status CodedCalibrator::SaveFit(const WindowSet& windows, std::size_t n, const CodecFitter& fitter) {
  if (!store_->persistent()) return absl::OkStatus();
  const uint64_t count = n;
  const std::string key = ResultKey("fit", FitKey(windows, n));
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&count), sizeof(count)}, key};
  for (std::string_view p : fitter.Parts()) parts.push_back(p);
  return store_->Put(ResultKey("codedfit", FitKey(windows, 0)), parts);
}

// How many windows of this fit are in the kept sums, which are then the fitter's.
absl::StatusOr<std::size_t> CodedCalibrator::RestoreFit(const WindowSet& windows, CodecFitter& fitter) {
  if (!store_->persistent()) return 0;
  const absl::StatusOr<std::string> kept = store_->Get(ResultKey("codedfit", FitKey(windows, 0)));
  uint64_t n = 0;
  if (!kept.ok() || kept->size() < sizeof(n)) return 0;
  std::memcpy(&n, kept->data(), sizeof(n));
  if (n > windows.windows.size()) return 0;
  const std::string key = ResultKey("fit", FitKey(windows, n));
  std::string_view bytes = std::string_view(*kept).substr(sizeof(n));
  if (bytes.substr(0, key.size()) != key) return 0;
  bytes.remove_prefix(key.size());
  if (!fitter.Restore(&bytes))
    return absl::DataLossError(fmt::format("{}: a checkpoint of another shape: remove it", options_.work_dir));
  return n;
}

absl::StatusOr<std::vector<double>> CodedCalibrator::Weigh(const Splits& splits, const CodecFitter& fitter) {
  if (options_.windows_sensitivity <= 0) return std::vector<double>{};
  // The fit text's: what is chosen here must not have seen the selection windows.
  const WindowShape shape{options_.shape.history, std::min(options_.shape.horizon, kSensitivityHorizon)};
  ASSIGN_OR_RETURN(const WindowSet windows,
                   CutWindows(engine_, splits.fit, shape, options_.seed + 1, options_.windows_sensitivity));
  SensitivityOptions noise;
  noise.ends = kCodedEnds;
  return MeasureSensitivity(engine_, windows, Plan(), fitter.Deviations(),
                            noise, progress_);
}

absl::Status CodedCalibrator::FitTables(CodecWeights& weights) {
  ASSIGN_OR_RETURN(const auto codec, BlockCodec::Create(engine_.facts().fingerprint.layout, weights));
  CodecScratch scratch;
  SymbolCounts counts(kRows);
  for (float step : kTableSteps) {
    ASSIGN_OR_RETURN(const CodedPolicy policy, codec->MakePolicy(step));
    for (const KvBlock& block : blocks_) {
      ASSIGN_OR_RETURN(const QuantisedBlock levels, codec->Quantise(policy, block, scratch));
      for (std::size_t u = 0; u < levels.units.size(); ++u) {
        CodedChunk chunk;
        RETURN_IF_ERROR(EncodeCoefficients(*weights.tables, policy.classes[u], static_cast<int>(block.range.size()),
                                           levels.units[u].data(), &chunk, &counts));
      }
    }
  }
  ASSIGN_OR_RETURN(weights.tables, FrequencyTables::Create(FrequencyTables::FitRows(counts)));
  return absl::OkStatus();
}

}  // namespace riskkv::calibrate
