#include "services/calibrate/coded_calibrator.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/predictor/features.h"
#include "common/predictor/set_json.h"
#include "common/quality/path.h"
#include "common/quality/sensitivity.h"
#include "fmt/format.h"

namespace riskkv::calibrate {
namespace {

// A fourth of an octave apart; the first is close to fp16's own rounding in what it does to a text, the last omits.
constexpr float kSteps[] = {0.06f, 0.07f, 0.085f, 0.1f, 0.12f, 0.14f, 0.17f, 0.2f, 0.24f, 0.285f,
                            0.34f, 0.4f,  0.48f,  0.57f, 0.68f, 0.8f,  0.95f, 1.13f, 1.35f, std::numeric_limits<float>::infinity()};
// Points of the path that differ by less in bytes are not told apart.
constexpr double kPathRatio = 0.96;
// Tables are fitted at steps across the ladder, on blocks from this many windows.
constexpr float kTableSteps[] = {0.12f, 0.2f, 0.3f, 0.5f};
constexpr int kTableWindows = 6;
// Tokens scored after each noisy history: the nearest ones feel it most.
constexpr int kSensitivityHorizon = 256;
// Weights in 8 bits halve a file that is sent once; for that no move may grow by more than this.
constexpr double kInt8Worth = 0.99;
// Of a coded move's own ends.
constexpr EndsPolicy kCodedEnds{4, 36};

}  // namespace

absl::StatusOr<CodecWeights> CodedCalibrator::Fit(const Splits& splits, CodedCalibration& result) {
  const KvLayout& layout = engine_.facts().fingerprint.layout;
  ASSIGN_OR_RETURN(const WindowSet windows, CutWindows(engine_, splits.fit, {options_.shape.history, 0}, options_.seed,
                                                       options_.windows_fit));
  result.fit_windows = static_cast<int>(windows.windows.size());
  progress_.Begin("fit", result.fit_windows);
  CodecFitter fitter(layout, PairPlan(layout.n_layer), options_.engine.threads);
  WindowScorer scorer(engine_);
  for (std::size_t i = 0; i < windows.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    ASSIGN_OR_RETURN(const KvBlock cells, scorer.Prefill(windows.windows[i].tokens));
    ASSIGN_OR_RETURN(const PreRopeBlock rows, UndoRope(layout, cells));
    // The first tokens are outliers (attention sinks) and travel by themselves.
    const int64_t from = std::min<int64_t>(kCodedEnds.first, cells.range.end);
    fitter.Add(rows, from, cells.range.end);
    if (i < kTableWindows) {
      const TokenRange block{from, std::min(cells.range.end, from + kCodedBlockTokens)};
      ASSIGN_OR_RETURN(KvBlock kept, Slice(cells, block, cells.layers));
      if (!block.empty()) blocks_.push_back(std::move(kept));
    }
    progress_.Step();
  }
  ASSIGN_OR_RETURN(result.sensitivity, Weigh(splits, fitter));
  ASSIGN_OR_RETURN(CodecWeights weights, fitter.Solve(kCodecRidge, result.sensitivity));
  RETURN_IF_ERROR(RoundToHalf(weights));
  RETURN_IF_ERROR(FitTables(weights));
  return weights;
}

absl::StatusOr<std::vector<double>> CodedCalibrator::Weigh(const Splits& splits, const CodecFitter& fitter) {
  if (options_.windows_sensitivity <= 0) return std::vector<double>{};
  // The fit text's: what is chosen here must not have seen the selection windows.
  const WindowShape shape{options_.shape.history, std::min(options_.shape.horizon, kSensitivityHorizon)};
  ASSIGN_OR_RETURN(const WindowSet windows,
                   CutWindows(engine_, splits.fit, shape, options_.seed + 1, options_.windows_sensitivity));
  SensitivityOptions noise;
  noise.ends = kCodedEnds;
  return MeasureSensitivity(engine_, windows, PairPlan(engine_.facts().fingerprint.layout.n_layer), fitter.Deviations(),
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

absl::StatusOr<std::vector<StepPoint>> CodedCalibrator::FindPath(const BlockCodec& codec) const {
  CodecScratch scratch;
  ASSIGN_OR_RETURN(const std::vector<UnitCurve> curves, MeasureUnitCurves(codec, blocks_, kSteps, scratch));
  return WalkSteps(curves, kSteps, kPathRatio);
}

absl::Status CodedCalibrator::FollowPath(const Splits& splits, CodecWeights& weights, CodedCalibration& result) {
  ASSIGN_OR_RETURN(const auto codec, BlockCodec::Create(engine_.facts().fingerprint.layout, weights));
  ASSIGN_OR_RETURN(const WindowSet select, CutWindows(engine_, splits.select, options_.shape, options_.seed,
                                                      options_.windows_select));
  WindowSet confirm;
  if (splits.confirm) {
    ASSIGN_OR_RETURN(confirm, CutWindows(engine_, *splits.confirm, options_.shape, options_.seed, options_.windows_confirm));
  }
  ASSIGN_OR_RETURN(const auto store, CellStore::Create(options_.temp_dir, codec->layout()));
  ASSIGN_OR_RETURN(std::vector<StepPoint> path, FindPath(*codec));
  const BootstrapOptions bootstrap{options_.resamples, options_.seed};
  CodedMeter select_meter(engine_, *store, select, "select", bootstrap, progress_);
  CodedMeter confirm_meter(engine_, *store, confirm, "confirm", bootstrap, progress_);
  CodedMeter* const confirmed = splits.confirm ? &confirm_meter : nullptr;
  CodedSearch search(*codec, std::move(path), kCodedEnds, select_meter, confirmed);
  std::vector<double> budgets = options_.epsilons;
  std::sort(budgets.begin(), budgets.end());
  for (double epsilon : budgets) {
    ASSIGN_OR_RETURN(const std::optional<CodedProfile> profile, search.Coarsest(epsilon));
    if (profile) result.profiles.push_back(*profile);
  }
  result.path = search.Measured();
  return TryInt8(select_meter, confirmed, weights, result);
}

absl::Status CodedCalibrator::TryInt8(CodedMeter& select, CodedMeter* confirm, CodecWeights& weights,
                                      CodedCalibration& result) {
  if (result.profiles.empty() || options_.codec_weights == "fp16") return absl::OkStatus();
  CodecWeights rounded = weights;
  RoundToInt8(rounded);
  ASSIGN_OR_RETURN(const auto codec, BlockCodec::Create(engine_.facts().fingerprint.layout, rounded));
  bool admitted = true;
  for (CodedProfile p : result.profiles) {
    const double before = p.times_fewer;
    ASSIGN_OR_RETURN(const CodedMeasurement m, select.Measure(*codec, p));
    p.select = m.stats;
    p.times_fewer = m.times_fewer();
    if (confirm != nullptr) {
      ASSIGN_OR_RETURN(const CodedMeasurement c, confirm->Measure(*codec, p));
      p.confirm = c.stats;
    }
    const Gate gate = confirm != nullptr ? Gate::kStableSplit : Gate::kUpper90;
    admitted = admitted && Admissible(gate, p.epsilon, p.select, &p.confirm) && p.times_fewer >= kInt8Worth * before;
    result.int8_profiles.push_back(std::move(p));
  }
  result.int8_weights = admitted;
  if (!admitted) return absl::OkStatus();
  weights = std::move(rounded);
  result.profiles = result.int8_profiles;
  return absl::OkStatus();
}

absl::StatusOr<std::string> CodedCalibrator::Write(const CodecWeights& weights, const CodedCalibration& result) {
  const SetSection section = ToSection(weights, engine_.facts().fingerprint.layout.kv(), result.profiles);
  if (base_ != nullptr) return WithSection(*base_, section);
  SetInfo info;
  info.layout = "coded";
  info.profiles["exact"] = ExactProfile(options_.ends);
  return SerializePredictorSet(engine_.facts().fingerprint, info, {}, kernels::WeightType::kF16, &section);
}

absl::StatusOr<CodedCalibration> CodedCalibrator::Run(const Splits& splits) {
  if (base_ != nullptr) RETURN_IF_ERROR(base_->CheckModel(engine_.facts().fingerprint));
  CodedCalibration result;
  ASSIGN_OR_RETURN(CodecWeights weights, Fit(splits, result));
  RETURN_IF_ERROR(FollowPath(splits, weights, result));
  ASSIGN_OR_RETURN(result.bytes, Write(weights, result));
  ASSIGN_OR_RETURN(result.set, PredictorSet::FromBytes(result.bytes, "the calibrated set"));
  result.codec_bytes = result.set->SectionBytes(kCodecSection);
  return result;
}

nlohmann::json ToJson(const CodedProfile& p) {
  return {{"name", p.name},
          {"epsilon", p.epsilon},
          {"steps", p.steps},
          {"ends", {p.ends.first, p.ends.last}},
          {"int8_ends", p.int8_ends},
          {"gate", p.gate},
          {"times_fewer", p.times_fewer},
          {"select", riskkv::ToJson(p.select)},
          {"confirm", riskkv::ToJson(p.confirm)}};
}

nlohmann::json ToJson(const CodedPoint& point) {
  nlohmann::json j = ToJson(point.profile);
  j["bytes_full"] = point.select.bytes_full;
  j["bytes_sent"] = point.select.bytes_sent;
  return j;
}

}  // namespace riskkv::calibrate
