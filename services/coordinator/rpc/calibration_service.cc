#include <map>

#include "common/cost/model.h"
#include "common/net/status.h"
#include "services/coordinator/core/planner.h"
#include "services/coordinator/core/profile_choice.h"
#include "services/coordinator/rpc/convert_worker.h"
#include "services/coordinator/rpc/services.h"

namespace riskkv::coordinator {
namespace {

constexpr int64_t kTypicalCells = 1024;  // for N*, before the set was used

int64_t CountOf(Store& store, const std::string& name) {
  auto counters = store.Counters(name);
  if (!counters.ok()) return 0;
  auto it = counters->find(name);
  return it == counters->end() ? 0 : it->second;
}

// N* of the gated profile that omits most (of any, when none is gated), for a request as long as those it was used for.
double BreakEven(const SetInfo& set, int64_t cells) {
  const ProfileInfo* best = nullptr;
  for (const ProfileInfo& profile : set.profiles) {
    if (best == nullptr || profile.gated > best->gated ||
        (profile.gated == best->gated && profile.omitted_layers.size() > best->omitted_layers.size())) {
      best = &profile;
    }
  }
  if (best == nullptr) return 0;
  cost::CacheShape shape{.n_layer = set.fingerprint.layout.n_layer, .kv = set.fingerprint.layout.kv()};
  cost::ProfileFacts facts;
  facts.omitted_layers = static_cast<int>(best->omitted_layers.size());
  facts.predictor_bytes = PredictorBytes(set, *best);
  facts.exact_ends = best->first_exact + best->last_exact;
  return cost::BreakEvenMoves(shape, facts, cells);
}

}  // namespace

grpc::Status CalibrationService::ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*,
                                                   v1::ListPredictorSetsReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  std::map<std::string, std::pair<SetInfo, std::vector<std::string>>> sets;
  for (const RegisteredWorker& worker : (*core)->registry->All()) {
    if (!worker.alive()) continue;
    for (const SetInfo& set : worker.info.sets) {
      auto& entry = sets[set.digest];
      entry.first = set;
      entry.second.push_back(worker.info.name.id);
    }
  }
  for (const auto& [digest, entry] : sets) {
    v1::PredictorSetInfo* out = reply->add_sets();
    *out = ToProto(entry.first);
    for (const std::string& worker : entry.second) out->add_workers(worker);
    int64_t moves = CountOf(*(*core)->store, SetMovesCounter(digest));
    int64_t cells = CountOf(*(*core)->store, SetCellsCounter(digest));
    out->set_moves(moves);
    out->set_break_even_moves(BreakEven(entry.first, moves > 0 && cells > 0 ? cells / moves : kTypicalCells));
  }
  return grpc::Status::OK;
}

}  // namespace riskkv::coordinator
