#include "services/coordinator/core/planner.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace riskkv::coordinator {
namespace {

constexpr double kAssumedBandwidth = 100e6;  // bytes a second, until a transfer was seen
constexpr double kAssumedRtt = 0.0005;
constexpr Mode kMoves[] = {Mode::kFull, Mode::kRisk, Mode::kCoded, Mode::kReplay};
constexpr absl::Duration kStale = absl::Minutes(1);
constexpr absl::Duration kMeasureTimeout = absl::Seconds(2);

cost::WorkerFacts FactsOf(const WorkerInfo& worker) {
  return {.prefill_p1 = worker.costs.prefill_p1,
          .prefill_p2 = worker.costs.prefill_p2,
          .decode_s = worker.costs.decode_s,
          .decode_s_per_token = worker.costs.decode_s_per_token,
          .rebuild_s = worker.costs.rebuild_s,
          .import_s = worker.costs.import_s,
          .export_s = worker.costs.export_s,
          .coded_encode_s = worker.costs.coded_encode_s,
          .coded_decode_s = worker.costs.coded_decode_s,
          .load = worker.load.load,
          .running = worker.load.running};
}

std::string Text(const absl::Status& status) { return {status.message().data(), status.message().size()}; }

bool Supports(const WorkerInfo& worker, Mode mode) { return worker.modes.empty() || worker.modes.count(mode) > 0; }

// Modes that cannot be, whatever they would cost.
std::map<Mode, std::string> Impossible(const JobSpec& spec, const WorkerInfo& source, const WorkerInfo& destination,
                                       const absl::Status& profile, const absl::Status& coded) {
  std::map<Mode, std::string> result;
  for (Mode mode : kMoves) {
    for (const WorkerInfo* worker : {&source, &destination}) {
      if (!Supports(*worker, mode)) result[mode] = "worker " + worker->name.id + " does not support it";
    }
  }
  if (absl::Status match = CheckCompatible(source.fingerprint, destination.fingerprint); !match.ok()) {
    for (Mode mode : kMoves) result[mode] = Text(match);
  }
  if (!profile.ok()) result[Mode::kRisk] = Text(profile);
  if (!coded.ok()) result[Mode::kCoded] = Text(coded);
  if (!spec.allow_lossy) {
    result[Mode::kRisk] = "the caller does not allow lossy modes";
    result[Mode::kCoded] = result[Mode::kRisk];
  }
  return result;
}

}  // namespace

std::string SetMovesCounter(const std::string& digest) { return kSetMovesPrefix + digest; }
std::string SetCellsCounter(const std::string& digest) { return kSetCellsPrefix + digest; }

absl::StatusOr<ProfileChoice> Planner::Profile(const JobSpec& spec, Mode mode, const WorkerInfo& source,
                                               const WorkerInfo& destination, const RequestInfo& request) const {
  std::vector<WorkerInfo> alive;
  for (RegisteredWorker& worker : registry_->All()) {
    if (worker.alive()) alive.push_back(std::move(worker.info));
  }
  ProfileWish wish{.mode = mode, .predictor_set = spec.predictor_set, .profile = spec.profile, .allow_ungated = spec.allow_ungated};
  return ChooseProfile(wish, source, destination, alive, request.provenance);
}

cost::LinkFacts Planner::Link(const WorkerInfo& source, const WorkerInfo& destination, bool measure) const {
  auto link = links_->Get(source.name.id, destination.name.id);
  if (measure && (!link || link->age > kStale)) {
    auto sample = api_->MeasureLink(source.name, destination.name.address, kMeasureTimeout);
    if (sample.ok() && sample->bytes_per_second > 0) {
      // As one transfer of a second, so that it has full weight.
      links_->Observe(source.name.id, destination.name.id, static_cast<int64_t>(sample->bytes_per_second), 1, 0);
      links_->ObserveRtt(source.name.id, destination.name.id, sample->rtt_seconds);
      link = links_->Get(source.name.id, destination.name.id);
    }
  }
  if (!link) return {.bytes_per_second = kAssumedBandwidth, .rtt_seconds = kAssumedRtt, .assumed = true};
  return {.bytes_per_second = link->bytes_per_second,
          .rtt_seconds = link->rtt_seconds > 0 ? link->rtt_seconds : kAssumedRtt,
          .age_seconds = absl::ToDoubleSeconds(link->age)};
}

cost::ProfileFacts Planner::Facts(const ProfileChoice& choice) const {
  cost::ProfileFacts facts;
  facts.predictor_set = choice.set.digest;
  facts.profile = choice.profile.name;
  facts.omitted_layers = static_cast<int>(choice.profile.omitted_layers.size());
  facts.groups = static_cast<int>(choice.profile.groups.size());
  facts.predictor_bytes = PredictorBytes(choice.set, choice.profile);
  facts.set_bytes = choice.set.file_bytes;
  facts.exact_ends = choice.profile.first_exact + choice.profile.last_exact;
  facts.absent = !choice.destination_holds;
  facts.gated = choice.profile.gated;
  facts.moves = MovesOf(choice.set.digest);
  return facts;
}

cost::CodedFacts Planner::FactsOfCoded(const ProfileChoice& choice) const {
  const ProfileInfo& p = choice.profile;
  return {.predictor_set = choice.set.digest,
          .profile = p.name,
          .token_bytes = p.coded_token_bytes,
          .end_token_bytes = p.end_token_bytes,
          .ends = p.first_exact + p.last_exact,
          .set_bytes = choice.set.file_bytes,
          .absent = !choice.destination_holds,
          .moves = MovesOf(choice.set.digest),
          .gated = p.gated};
}

// A count that cannot be read only makes the estimate poorer.
double Planner::MovesOf(const std::string& digest) const {
  double moves = 0;
  auto counts = store_->Counters(SetMovesCounter(digest));
  if (!counts.ok()) return moves;
  for (const auto& [name, count] : *counts) moves += static_cast<double>(count);
  return moves;
}

PlanResult Planner::Make(const JobSpec& spec, const WorkerInfo& source, const WorkerInfo& destination, const RequestInfo& request,
                         bool measure) const {
  PlanResult result;
  cost::Inputs in;
  in.source = source.name.id;
  in.destination = destination.name.id;
  in.shape = {.n_layer = source.fingerprint.layout.n_layer, .kv = source.fingerprint.layout.kv()};
  in.request = {.n_tokens = request.n_tokens(), .n_kv = request.n_kv, .tokens_left = request.tokens_left()};
  in.from = FactsOf(source);
  in.to = FactsOf(destination);
  in.link = Link(source, destination, measure);
  auto choice = Profile(spec, Mode::kRisk, source, destination, request);
  if (choice.ok()) {
    in.profile = Facts(*choice);
    result.profile = *choice;
  } else {
    result.no_profile = choice.status();
  }
  auto coded = Profile(spec, Mode::kCoded, source, destination, request);
  if (coded.ok()) {
    in.coded = FactsOfCoded(*coded);
    result.coded = *coded;
  } else {
    result.no_coded = coded.status();
  }
  in.impossible = Impossible(spec, source, destination, choice.status(), coded.status());
  in.corrections = corrections_->All();
  in.max_pause_seconds = spec.max_pause_ms > 0 ? static_cast<double>(spec.max_pause_ms) / 1000 : 0.2;
  in.asked = spec.mode;
  in.must_move = spec.must_move;
  result.plan = cost::MakePlan(in);
  return result;
}

}  // namespace riskkv::coordinator
