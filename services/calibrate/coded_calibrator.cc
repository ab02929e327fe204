#include "services/calibrate/coded_calibrator.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/predictor/set_json.h"
#include "common/quality/path.h"
#include "fmt/format.h"

namespace riskkv::calibrate {
namespace {

// A fourth of an octave apart; the first is close to fp16's own rounding in what it does to a text, the last omits.
constexpr float kSteps[] = {0.06f, 0.07f, 0.085f, 0.1f, 0.12f, 0.14f, 0.17f, 0.2f, 0.24f, 0.285f,
                            0.34f, 0.4f,  0.48f,  0.57f, 0.68f, 0.8f,  0.95f, 1.13f, 1.35f, std::numeric_limits<float>::infinity()};
// Points of the path that differ by less in bytes are not told apart.
constexpr double kPathRatio = 0.96;
// Weights in 8 bits halve a file that is sent once; for that no move may grow by more than this.
constexpr double kInt8Worth = 0.99;

}  // namespace

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
  ASSIGN_OR_RETURN(store_, OpenResultStore(options_.work_dir, options_.temp_dir));
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
