// One boot of a coordinator: the real core over a store that outlives it, its calls to workers over the faulty network.
#ifndef RISKKV_TESTS_FAULTS_COORDINATOR_NODE_H_
#define RISKKV_TESTS_FAULTS_COORDINATOR_NODE_H_

#include <memory>

#include "services/coordinator/core/migration_manager.h"
#include "tests/faults/disk.h"
#include "tests/faults/world.h"

namespace riskkv::faults {

struct CoordinatorNode {
  CoordinatorNode(World* world, Disk* disk, ProcessPtr process);
  // Reads the store and goes on with what it finds.
  absl::Status Start();

  World* const world;
  const ProcessPtr process;
  DiskStore store;
  coordinator::WorkerRegistry registry;
  cost::LinkTable links;
  cost::Corrections corrections;
  std::unique_ptr<coordinator::WorkerApi> api;
  std::unique_ptr<coordinator::MigrationManager> manager;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_COORDINATOR_NODE_H_
