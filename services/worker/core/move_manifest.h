// Everything a destination checks of a round before it allocates anything.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_MANIFEST_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_MANIFEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/predictor/profile.h"
#include "services/worker/core/move_coded.h"
#include "services/worker/core/move_types.h"

namespace riskkv::worker {

struct ManifestLimits {
  std::size_t max_segments = 4096;        // a round
  int64_t max_segment_bytes = 256 << 20;
  int64_t max_segment_tokens = 4096;
  int64_t max_round_bytes = 512 << 20;
  std::size_t max_probe_tokens = 128;     // a segment
};

// What was agreed when the attempt was reserved, and how far it has come.
struct AttemptTerms {
  const Fingerprint* fingerprint = nullptr;  // this worker's
  int n_vocab = 0;
  MoveMode mode = MoveMode::kUnspecified;
  std::string predictor_set;
  std::string profile;
  const Profile* rules = nullptr;  // kRisk: what the profile omits
  std::shared_ptr<const CodedMove> coded;  // kCoded
  int64_t cells_reserved = 0;
  int64_t frontier = 0;            // of the round before
  uint32_t round = 0;              // of the round before
  uint32_t last_segment = 0;
  bool final_declared = false;
};

// A RISK or CODED attempt may send a round as FULL, never the other way round. Errors (all INVALID_ARGUMENT unless said):
// MANIFEST_MISMATCH (mode, set, profile, order of rounds, segments that do not tile [frontier before, frontier), bytes, encoding, a
// block to rebuild without a probe of a natively computed token, a coded block without a probe), BAD_RANGE (bounds),
// RESOURCE_EXHAUSTED NO_BLOCKS beyond the reservation, and CheckCompatible's.
absl::Status CheckManifest(const AttemptTerms& terms, const ManifestLimits& limits, const RoundManifest& manifest);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_MANIFEST_H_
