#include "common/cost/terms.h"

#include <algorithm>
#include <cmath>

namespace riskkv::cost {
namespace {

constexpr int64_t kBlockTokens = 128;  // rebuild and import go by blocks
constexpr int64_t kTailMost = 32;      // pre-copy converges to at most so many cells left at the pause
constexpr double kBusiest = 0.95;      // a load of 1 would never finish; the loop takes turns
constexpr double kPauseSteps = 1.5;    // decode steps until the token boundary and the first step there (protocol.md, 7)
constexpr int64_t kTokenBytes = 4;

double Bandwidth(const Inputs& in) { return std::max(in.link.bytes_per_second, 1.0); }
double Free(const WorkerFacts& worker) { return 1 - std::clamp(worker.load, 0.0, kBusiest); }
double Correction(const Inputs& in, Mode mode) {
  auto it = in.corrections.find(mode);
  return it == in.corrections.end() ? 1.0 : it->second;
}

int64_t FullBytes(const Inputs& in, int64_t tokens) { return tokens * in.shape.n_layer * in.shape.bytes_per_token_layer(); }

// Cells made while the last block was on its way: what is left when the source pauses.
int64_t TailTokens(const Inputs& in) {
  double step = TokenSeconds(in.from, in.request.n_kv, std::max(1, in.from.running));
  int64_t block = std::min(kBlockTokens, std::max<int64_t>(in.request.n_kv, 1));
  double round = in.link.rtt_seconds + static_cast<double>(FullBytes(in, block)) / Bandwidth(in);
  int64_t tokens = step > 0 ? static_cast<int64_t>(std::ceil(round / step)) : kTailMost;
  return std::clamp<int64_t>(tokens, 1, std::min(kTailMost, std::max<int64_t>(in.request.n_kv, 1)));
}

// Pause terms every mode has; the tail's own work is added by the caller.
void AddPause(const Inputs& in, double tail_seconds, ModeCost& cost) {
  double step = TokenSeconds(in.from, in.request.n_kv, std::max(1, in.from.running));
  cost.terms["pause_steps_s"] = kPauseSteps * step;
  cost.terms["pause_rtt_s"] = 2 * in.link.rtt_seconds;
  cost.terms["pause_tail_s"] = tail_seconds;
  cost.terms["pause_commit_s"] = in.commit_seconds;
  cost.pause_seconds = kPauseSteps * step + 2 * in.link.rtt_seconds + tail_seconds + in.commit_seconds;
}

// The tail goes for all layers in every mode that ships cells.
double TailSeconds(const Inputs& in) {
  int64_t tail = TailTokens(in);
  return static_cast<double>(FullBytes(in, tail)) / Bandwidth(in) + static_cast<double>(tail) * in.to.import_s;
}

ModeCost Start(const Inputs& in, Mode mode) {
  ModeCost cost;
  cost.mode = mode;
  cost.possible = true;
  if (auto it = in.impossible.find(mode); it != in.impossible.end()) {
    cost.possible = false;
    cost.why_not = it->second;
  }
  return cost;
}

void Total(const Inputs& in, double seconds, ModeCost& cost) {
  double correction = Correction(in, cost.mode);
  cost.terms["correction"] = correction;
  cost.total_seconds = seconds * correction;
}

// A placed set is shared: each move that will use it carries its part. One more than so far, at least.
double PlacementSeconds(const Inputs& in, const ProfileFacts& profile) {
  if (!profile.absent) return 0;
  double sharing = std::max(1.0, profile.moves);
  return static_cast<double>(profile.set_bytes) / Bandwidth(in) / sharing;
}

}  // namespace

int64_t OmittedTokens(const ProfileFacts& profile, int64_t n_kv) {
  return std::max<int64_t>(0, n_kv - profile.exact_ends);
}

double TokenSeconds(const WorkerFacts& worker, int64_t context, int running) {
  return (worker.decode_s + static_cast<double>(context) * worker.decode_s_per_token) * std::max(1, running);
}

double Disturbance(const Inputs& in) {
  return static_cast<double>(in.request.n_kv) * (in.from.export_s + in.to.import_s);
}

ModeCost FullCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kFull);
  cost.bytes = FullBytes(in, in.request.n_kv);
  double transfer = static_cast<double>(cost.bytes) / Bandwidth(in);
  double import = static_cast<double>(in.request.n_kv) * in.to.import_s;
  cost.terms["rtt_s"] = in.link.rtt_seconds;
  cost.terms["transfer_s"] = transfer;
  cost.terms["import_s"] = import;
  Total(in, in.link.rtt_seconds + transfer + import, cost);
  AddPause(in, TailSeconds(in), cost);
  return cost;
}

ModeCost RiskCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kRisk);
  if (!in.profile) {
    cost.possible = false;
    if (cost.why_not.empty()) cost.why_not = "no predictor set with a usable profile";
    return cost;
  }
  const ProfileFacts& p = *in.profile;
  int64_t omitted = OmittedTokens(p, in.request.n_kv);
  int64_t saved = omitted * p.omitted_layers * in.shape.bytes_per_token_layer();
  cost.bytes = FullBytes(in, in.request.n_kv) - saved;
  double transfer = static_cast<double>(cost.bytes) / Bandwidth(in);
  double per_token = p.groups * in.to.rebuild_s / Free(in.to);
  double rebuild = static_cast<double>(omitted) * per_token;
  double last_block = static_cast<double>(std::min(kBlockTokens, omitted)) * per_token;
  double import = static_cast<double>(in.request.n_kv) * in.to.import_s;
  double set = PlacementSeconds(in, p);
  cost.terms["rtt_s"] = in.link.rtt_seconds;
  cost.terms["transfer_s"] = transfer;
  cost.terms["rebuild_s"] = rebuild;
  cost.terms["pipeline_s"] = std::max(transfer, rebuild) + last_block;
  cost.terms["import_s"] = import;
  cost.terms["set_s"] = set;
  cost.terms["bytes_saved"] = static_cast<double>(saved);
  Total(in, in.link.rtt_seconds + std::max(transfer, rebuild) + last_block + import + set, cost);
  AddPause(in, TailSeconds(in), cost);
  if (cost.possible && omitted == 0) {
    cost.possible = false;
    cost.why_not = "the request has no more tokens than the exact ends";
  }
  return cost;
}

ModeCost CodedCost(const Inputs& in) {
  // The terms of design.md, 7; the codec comes with a later version.
  ModeCost cost = Start(in, Mode::kCoded);
  cost.possible = false;
  if (cost.why_not.empty()) cost.why_not = "not implemented in this version";
  cost.terms["rtt_s"] = in.link.rtt_seconds;
  cost.terms["transfer_s"] = 0;
  cost.terms["encode_s"] = 0;
  cost.terms["decode_s"] = 0;
  cost.terms["import_s"] = static_cast<double>(in.request.n_kv) * in.to.import_s;
  return cost;
}

ModeCost ReplayCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kReplay);
  double tokens = static_cast<double>(in.request.n_kv);
  cost.bytes = in.request.n_tokens * kTokenBytes;
  double transfer = static_cast<double>(cost.bytes) / Bandwidth(in);
  double replay = (in.to.prefill_p1 * tokens + in.to.prefill_p2 * tokens * tokens) / Free(in.to);
  cost.terms["rtt_s"] = in.link.rtt_seconds;
  cost.terms["transfer_s"] = transfer;
  cost.terms["replay_s"] = replay;
  Total(in, in.link.rtt_seconds + transfer + replay, cost);
  // The tail is computed, not shipped: T tokens on top of a context of n_kv cost p1*t + 2*p2*n_kv*t.
  double tail = static_cast<double>(TailTokens(in));
  AddPause(in, (in.to.prefill_p1 * tail + 2 * in.to.prefill_p2 * tokens * tail) / Free(in.to), cost);
  return cost;
}

ModeCost StayCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kStay);
  double here = TokenSeconds(in.from, in.request.n_kv, std::max(1, in.from.running));
  double there = TokenSeconds(in.to, in.request.n_kv, in.to.running + 1);
  double gain = static_cast<double>(in.request.tokens_left) * (here - there);
  cost.terms["token_here_s"] = here;
  cost.terms["token_there_s"] = there;
  cost.terms["gain_s"] = gain;
  cost.terms["disturbance_s"] = Disturbance(in);
  cost.total_seconds = std::max(0.0, gain);
  if (in.must_move && cost.possible) {
    cost.possible = false;
    cost.why_not = "the caller must move";
  }
  return cost;
}

}  // namespace riskkv::cost
