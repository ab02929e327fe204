// A calibration of coded profiles: texts and, where there is one, a set with the paper's profiles, to the bytes of a set
// with a codec section. No command line, no printing.
#ifndef RISKKV_SERVICES_CALIBRATE_CODED_CALIBRATOR_H_
#define RISKKV_SERVICES_CALIBRATE_CODED_CALIBRATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/codec_fitter.h"
#include "common/codec/coded_profile.h"
#include "common/quality/coded_meter.h"
#include "common/quality/result_store.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/calibrator.h"
#include "services/calibrate/coded_search.h"

namespace riskkv::calibrate {

// Tokens of a coded move that travel by themselves.
inline constexpr EndsPolicy kCodedEnds{4, 36};

struct CodedCalibration {
  std::string bytes;  // the set's file
  std::shared_ptr<const PredictorSet> set;
  std::vector<CodedPoint> path;  // what was measured of it, coarsest first
  std::vector<CodedProfile> profiles;
  // The same with weights in 8 bits, where they were measured: the set has them when every profile is admitted so.
  std::vector<CodedProfile> int8_profiles;
  bool int8_weights = false;
  int64_t codec_bytes = 0;  // of the section's tensors
  int fit_windows = 0;
  std::vector<double> sensitivity;  // [n_layer][K|V], or empty
};

class CodedCalibrator {
 public:
  // Everything must outlive it. The engine must be idle, with cells for a whole window. `base` may be null.
  CodedCalibrator(Engine& engine, const PredictorSet* base, const CalibrateOptions& options, Progress& progress)
      : engine_(engine), base_(base), options_(options), progress_(progress) {}

  // Fits transforms and tables on the fit text; for each budget, the coarsest steps that the gate admits
  // (Upper-90 on the selection windows and, where given, the confirmation windows).
  absl::StatusOr<CodedCalibration> Run(const Splits& splits);

 private:
  CodedPlan Plan() const { return PairPlan(engine_.facts().fingerprint.layout.n_layer); }
  // coded_fit.cc
  absl::StatusOr<CodecWeights> Fit(const Splits& splits, CodedCalibration& result);
  absl::Status Accumulate(const WindowSet& windows, CodecFitter& fitter);
  absl::Status AddWindow(const Window& window, CodecFitter& fitter);
  absl::Status FillBlocks(const WindowSet& windows);
  std::string FitKey(const WindowSet& windows, std::size_t n) const;
  absl::Status SaveFit(const WindowSet& windows, std::size_t n, const CodecFitter& fitter);
  absl::StatusOr<std::size_t> RestoreFit(const WindowSet& windows, CodecFitter& fitter);
  absl::StatusOr<std::vector<double>> Weigh(const Splits& splits, const CodecFitter& fitter);
  absl::Status FitTables(CodecWeights& weights);
  // coded_calibrator.cc
  absl::StatusOr<std::vector<StepPoint>> FindPath(const BlockCodec& codec) const;
  // Profiles, and the weights they were measured with in the end.
  absl::Status FollowPath(const Splits& splits, CodecWeights& weights, CodedCalibration& result);
  absl::Status TryInt8(CodedMeter& select, CodedMeter* confirm, CodecWeights& weights, CodedCalibration& result);
  absl::StatusOr<std::string> Write(const CodecWeights& weights, const CodedCalibration& result);

  Engine& engine_;
  const PredictorSet* base_;
  const CalibrateOptions& options_;
  Progress& progress_;
  std::unique_ptr<ResultStore> store_;  // the fit goes on from what is there
  std::vector<KvBlock> blocks_;  // of the fit text: tables and the units' curves are measured on them
};

nlohmann::json ToJson(const CodedPoint& point);
nlohmann::json ToJson(const CodedProfile& profile);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CODED_CALIBRATOR_H_
