#include "services/cli/pick_worker.h"

#include <algorithm>

#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/rpc.h"

namespace riskkv::cli {

const std::string& ClientAddress(const v1::WorkerInfo& worker) {
  return worker.client_address().empty() ? worker.address() : worker.client_address();
}

absl::StatusOr<std::string> PickWorker(const std::string& coordinator) {
  Peer<v1::Coordinator> peer("coordinator", coordinator);
  absl::StatusOr<v1::ListWorkersReply> reply =
      peer.Call(&v1::Coordinator::Stub::ListWorkers, v1::ListWorkersRequest());
  RETURN_IF_ERROR(reply.status());
  auto used = [](const v1::WorkerInfo& w) {
    return static_cast<double>(w.load().cells_used()) / std::max<int64_t>(1, w.load().cells_total());
  };
  const v1::WorkerInfo* best = nullptr;
  for (const v1::WorkerInfo& w : reply->workers()) {
    if (w.serving() && (best == nullptr || used(w) < used(*best))) best = &w;
  }
  if (best == nullptr) {
    return MakeError(
        absl::StatusCode::kUnavailable, "NOT_READY",
        fmt::format("coordinator {} knows {} workers, none is serving", coordinator, reply->workers_size()));
  }
  return ClientAddress(*best);
}

}  // namespace riskkv::cli
