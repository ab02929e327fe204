// From what the coordinator knows to the inputs of the cost model, and so to a plan.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_PLANNER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_PLANNER_H_

#include <optional>
#include <string>

#include "common/cost/corrections.h"
#include "common/cost/links.h"
#include "common/store/store.h"
#include "services/coordinator/core/profile_choice.h"
#include "services/coordinator/core/worker_api.h"
#include "services/coordinator/core/worker_registry.h"

namespace riskkv::coordinator {

struct PlanResult {
  Plan plan;
  // What RISK and CODED would use, when they are possible at all, and why not.
  std::optional<ProfileChoice> profile, coded;
  absl::Status no_profile, no_coded;
  const std::optional<ProfileChoice>& ProfileFor(Mode mode) const { return mode == Mode::kCoded ? coded : profile; }
  const absl::Status& NoProfileFor(Mode mode) const { return mode == Mode::kCoded ? no_coded : no_profile; }
};

// Name of the store's counter of lossy moves that used a set, and of their cells.
std::string SetMovesCounter(const std::string& digest);
std::string SetCellsCounter(const std::string& digest);
inline constexpr char kSetMovesPrefix[] = "set_moves/";
inline constexpr char kSetCellsPrefix[] = "set_cells/";

// Thread-safe; every pointer outlives it.
class Planner {
 public:
  Planner(const WorkerRegistry* registry, cost::LinkTable* links, const cost::Corrections* corrections, Store* store, WorkerApi* api)
      : registry_(registry), links_(links), corrections_(corrections), store_(store), api_(api) {}

  // `measure`: a link nobody has used, or not for a minute, is measured first (up to 2 s).
  PlanResult Make(const JobSpec& spec, const WorkerInfo& source, const WorkerInfo& destination, const RequestInfo& request,
                  bool measure) const;
  // The set and profile `spec` would use in this lossy mode; as ChooseProfile.
  absl::StatusOr<ProfileChoice> Profile(const JobSpec& spec, Mode mode, const WorkerInfo& source, const WorkerInfo& destination,
                                        const RequestInfo& request) const;

 private:
  cost::LinkFacts Link(const WorkerInfo& source, const WorkerInfo& destination, bool measure) const;
  cost::ProfileFacts Facts(const ProfileChoice& choice) const;
  cost::CodedFacts FactsOfCoded(const ProfileChoice& choice) const;
  double MovesOf(const std::string& digest) const;

  const WorkerRegistry* const registry_;
  cost::LinkTable* const links_;
  const cost::Corrections* const corrections_;
  Store* const store_;
  WorkerApi* const api_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_PLANNER_H_
