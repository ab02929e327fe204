#include "services/calibrate/coded_calibrator.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/predictor/features.h"
#include "common/predictor/set_json.h"
#include "common/quality/path.h"
#include "common/quality/sensitivity.h"
#include "fmt/format.h"

namespace riskkv::calibrate {
namespace {

// Coarsest first; the last is close to fp16's own rounding in what it does to a text.
constexpr float kStepLadder[] = {0.8f, 0.65f, 0.5f, 0.42f, 0.35f, 0.3f, 0.25f, 0.21f, 0.175f, 0.15f, 0.125f, 0.1f, 0.07f};
// Tables are fitted at steps across the ladder, on blocks from this many windows.
constexpr float kTableSteps[] = {0.12f, 0.2f, 0.3f, 0.5f};
constexpr int kTableWindows = 6;
// Tokens scored after each noisy history: the nearest ones feel it most.
constexpr int kSensitivityHorizon = 256;
// Of a coded move's own ends.
constexpr EndsPolicy kCodedEnds{4, 36};

CodedProfile UniformProfile(const BlockCodec& codec, float step) {
  CodedProfile p;
  p.name = fmt::format("step {}", step);
  p.steps.assign(codec.weights().units.size(), step);
  p.ends = kCodedEnds;
  return p;
}

}  // namespace

absl::StatusOr<CodecWeights> CodedCalibrator::Fit(const Splits& splits, CodedCalibration& result) {
  const KvLayout& layout = engine_.facts().fingerprint.layout;
  ASSIGN_OR_RETURN(const WindowSet windows, CutWindows(engine_, splits.fit, {options_.shape.history, 0}, options_.seed,
                                                       options_.windows_fit));
  result.fit_windows = static_cast<int>(windows.windows.size());
  progress_.Begin("fit", result.fit_windows);
  CodecFitter fitter(layout, PairPlan(layout.n_layer), options_.engine.threads);
  WindowScorer scorer(engine_);
  std::vector<KvBlock> blocks;
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
      if (!block.empty()) blocks.push_back(std::move(kept));
    }
    progress_.Step();
  }
  ASSIGN_OR_RETURN(result.sensitivity, Weigh(splits, fitter));
  ASSIGN_OR_RETURN(CodecWeights weights, fitter.Solve(kCodecRidge, result.sensitivity));
  RETURN_IF_ERROR(RoundToHalf(weights));
  RETURN_IF_ERROR(FitTables(blocks, weights));
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

absl::Status CodedCalibrator::FitTables(const std::vector<KvBlock>& blocks, CodecWeights& weights) {
  ASSIGN_OR_RETURN(const auto codec, BlockCodec::Create(engine_.facts().fingerprint.layout, weights));
  CodecScratch scratch;
  SymbolCounts counts(kRows);
  for (float step : kTableSteps) {
    ASSIGN_OR_RETURN(const CodedPolicy policy, codec->MakePolicy(step));
    for (const KvBlock& block : blocks) {
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

absl::Status CodedCalibrator::FollowSteps(const BlockCodec& codec, const Splits& splits, CodedCalibration& result) {
  ASSIGN_OR_RETURN(const WindowSet select, CutWindows(engine_, splits.select, options_.shape, options_.seed,
                                                      options_.windows_select));
  WindowSet confirm;
  if (splits.confirm) {
    ASSIGN_OR_RETURN(confirm, CutWindows(engine_, *splits.confirm, options_.shape, options_.seed, options_.windows_confirm));
  }
  ASSIGN_OR_RETURN(const auto store, CellStore::Create(options_.temp_dir, codec.layout()));
  const BootstrapOptions bootstrap{options_.resamples, options_.seed};
  CodedMeter select_meter(engine_, *store, select, "select", bootstrap, progress_);
  CodedMeter confirm_meter(engine_, *store, confirm, "confirm", bootstrap, progress_);
  const Gate gate = splits.confirm ? Gate::kStableSplit : Gate::kUpper90;
  std::vector<double> open = options_.epsilons;
  std::sort(open.begin(), open.end());
  for (float step : kStepLadder) {
    if (open.empty()) break;
    CodedPoint point;
    point.profile = UniformProfile(codec, step);
    ASSIGN_OR_RETURN(point.select, select_meter.Measure(codec, point.profile));
    point.profile.select = point.select.stats;
    point.profile.times_fewer = point.select.times_fewer();
    if (splits.confirm && Admissible(Gate::kUpper90, open.back(), point.select.stats, nullptr)) {
      ASSIGN_OR_RETURN(const CodedMeasurement m, confirm_meter.Measure(codec, point.profile));
      point.profile.confirm = m.stats;
    }
    // Any budget may be met here, the widest first.
    while (!open.empty() && Admissible(gate, open.back(), point.select.stats, &point.profile.confirm)) {
      CodedProfile p = point.profile;
      p.name = CodedProfileName(open.back());
      p.epsilon = open.back();
      p.gated = true;
      p.gate = GateName(gate);
      result.profiles.push_back(std::move(p));
      open.pop_back();
    }
    result.path.push_back(std::move(point));
  }
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
  ASSIGN_OR_RETURN(const CodecWeights weights, Fit(splits, result));
  ASSIGN_OR_RETURN(const auto codec, BlockCodec::Create(engine_.facts().fingerprint.layout, weights));
  RETURN_IF_ERROR(FollowSteps(*codec, splits, result));
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
