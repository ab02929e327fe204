// What a worker asks of its peers besides moves: predictor sets, and how fast the link is.
#ifndef RISKKV_SERVICES_WORKER_RPC_PEER_TOOLS_H_
#define RISKKV_SERVICES_WORKER_RPC_PEER_TOOLS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/core/predictor_store.h"
#include "services/worker/rpc/peer_client.h"

namespace riskkv::worker {

struct FetchedSet {
  bool already_held = false;
  int64_t bytes = 0;
  double seconds = 0;
};

// Fetches a set by digest from the first of `peers` that gives it whole, and makes it ready. Bytes that are not `digest` are DATA_LOSS
// (DIGEST) and nothing is kept; damaged chunks DATA_LOSS (CHECKSUM); without an answer PEER_UNREACHABLE. The last peer's error counts.
absl::StatusOr<FetchedSet> FetchSet(PredictorStore& store, PeerChannels& channels, const std::string& digest,
                                    const std::vector<std::string>& peers);

struct LinkMeasure {
  double bytes_per_second = 0;
  double rtt_seconds = 0;
};
// Sends `bytes` to the peer's Sink. INVALID_ARGUMENT beyond 1 GiB.
absl::StatusOr<LinkMeasure> MeasureLink(PeerChannels& channels, const std::string& address, int64_t bytes);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_PEER_TOOLS_H_
