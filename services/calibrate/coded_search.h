// For each budget, the coarsest point of a path of steps that the gate admits.
#ifndef RISKKV_SERVICES_CALIBRATE_CODED_SEARCH_H_
#define RISKKV_SERVICES_CALIBRATE_CODED_SEARCH_H_

#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/coded_profile.h"
#include "common/codec/step_path.h"
#include "common/quality/coded_meter.h"
#include "common/quality/path.h"

namespace riskkv::calibrate {

// One point of the path, measured.
struct CodedPoint {
  CodedProfile profile;
  StepPoint promised;
  CodedMeasurement select;
};

// What it is given must outlive it. Not thread-safe.
class CodedSearch {
 public:
  // `path` from the finest on (WalkSteps). `confirm` may be null: then Upper-90 alone decides, else Stable-split.
  CodedSearch(const BlockCodec& codec, std::vector<StepPoint> path, EndsPolicy ends, CodedMeter& select,
              CodedMeter* confirm)
      : codec_(codec), path_(std::move(path)), ends_(ends), select_(select), confirm_(confirm) {}

  // Halves the path on the selection windows, where the risk rises along it up to noise, then goes finer until the
  // confirmation windows agree. None when not even the finest is admitted. The fewer points are looked at, the less
  // the selection windows' luck is picked.
  absl::StatusOr<std::optional<CodedProfile>> Coarsest(double epsilon);

  // Everything that was measured, coarsest first.
  std::vector<CodedPoint> Measured() const;

 private:
  absl::StatusOr<const CodedPoint*> Select(int at);
  absl::StatusOr<bool> Confirms(int at, double epsilon);

  const BlockCodec& codec_;
  const std::vector<StepPoint> path_;
  const EndsPolicy ends_;
  CodedMeter& select_;
  CodedMeter* const confirm_;
  std::map<int, CodedPoint> measured_;  // by place on the path
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CODED_SEARCH_H_
