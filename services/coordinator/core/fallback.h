// What is tried after what (protocol.md, 6). Pure.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_FALLBACK_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_FALLBACK_H_

#include "absl/status/status.h"
#include "common/migration/states.h"

namespace riskkv::coordinator {

// The mode to try after `mode` failed for `why`: STAY when nothing else may help (then the request goes on where it is), UNSPECIFIED
// when the caller wants no fallback (FAIL).
Mode NextMode(Mode mode, OnFailure on_failure, const absl::Status& why);

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_FALLBACK_H_
