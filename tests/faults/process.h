// A process of the harness at one boot: whether it is dead (cut off from the world for good) or paused (as by SIGSTOP).
#ifndef RISKKV_TESTS_FAULTS_PROCESS_H_
#define RISKKV_TESTS_FAULTS_PROCESS_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"

namespace riskkv::faults {

struct Process {
  Process(std::string id_, std::string boot_, int number_) : id(std::move(id_)), boot(std::move(boot_)), number(number_) {}
  const std::string id;  // also its address
  const std::string boot;
  const int number;      // of this boot, unique in its cluster
  std::atomic<bool> dead{false};
  std::atomic<bool> paused{false};

  // Where a thread of the process stands still while it is paused.
  void Stand() const {
    while (paused && !dead) absl::SleepFor(absl::Microseconds(500));
  }
};
using ProcessPtr = std::shared_ptr<Process>;

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_PROCESS_H_
