// One boot of a worker: the real core over a fake engine, its calls over the faulty network.
#ifndef RISKKV_TESTS_FAULTS_WORKER_NODE_H_
#define RISKKV_TESTS_FAULTS_WORKER_NODE_H_

#include <memory>
#include <string>

#include "common/engine/fake/fake_engine.h"
#include "kernels/backend.h"
#include "services/coordinator/core/worker_registry.h"
#include "services/worker/core/cancel_relay.h"
#include "services/worker/core/move_incoming_table.h"
#include "services/worker/core/move_outgoing_table.h"
#include "tests/faults/world.h"

namespace riskkv::faults {

// A selection set of the fake model, made once.
const std::string& SetBytes();
const std::string& SetDigest();
FakeOptions EngineOptions(absl::Duration step);

// Members in the order in which they may go.
struct WorkerNode {
  WorkerNode(World* world, ProcessPtr process, kernels::Backend* backend);
  ~WorkerNode();

  coordinator::WorkerInfo Describe() const;
  coordinator::LeaseRenewal Renewal() const;
  // Nothing is held for anybody.
  bool Idle() const;
  std::string Holdings() const;
  // As WorkerService::AdoptHere.
  absl::Status Adopt(worker::IncomingRequest request, uint64_t epoch, int64_t start_index);

  World* const world;
  const ProcessPtr process;
  std::unique_ptr<worker::RequestManager> manager;
  std::unique_ptr<worker::PredictorStore> predictors;
  std::unique_ptr<worker::DecisionAuthority> authority;
  std::unique_ptr<worker::CancelPeers> cancel_peers;
  std::unique_ptr<worker::CancelRelay> cancels;
  std::unique_ptr<worker::IncomingMoves> incoming;
  std::unique_ptr<worker::OutgoingMoves> outgoing;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_WORKER_NODE_H_
