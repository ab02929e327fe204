// Engines for the offline commands.
#ifndef RISKKV_SERVICES_CALIBRATE_ENGINE_FACTORY_H_
#define RISKKV_SERVICES_CALIBRATE_ENGINE_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "services/calibrate/options.h"

namespace riskkv::calibrate {

// Threads asked for, or the machine's cores (at most 16).
int ResolveThreads(int asked);

// An engine with room for `cells` cells. INVALID_ARGUMENT for an unknown kind.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const EngineOptions& options, int64_t cells);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_ENGINE_FACTORY_H_
