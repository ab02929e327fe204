// Where a set's numbers come from, as JSON for its "calibration" field. Deterministic: no times, no folders.
#ifndef RISKKV_SERVICES_CALIBRATE_PROVENANCE_H_
#define RISKKV_SERVICES_CALIBRATE_PROVENANCE_H_

#include <string>

#include "services/calibrate/calibrator.h"
#include "services/calibrate/result.h"

namespace riskkv::calibrate {

std::string ProvenanceJson(const CalibrateOptions& options, const Splits& splits,
                           const CalibrationResult& result);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_PROVENANCE_H_
