#include "common/cost/terms.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace riskkv::cost {
namespace {

constexpr int64_t kBlockTokens = 128;  // export, rebuild and import go by blocks
// As the source's pacer has it (services/worker/core/move_pace): rounds go on while each leaves less than kShrinks of what the
// one before left, and more than kFewCells.
constexpr int kMostRounds = 8;
constexpr int64_t kFewCells = 4;
constexpr double kShrinks = 0.75;
constexpr int kRoundCalls = 3;         // a round declares, pushes, and asks until everything is in the cache
constexpr int kBlockCalls = 2;         // coded blocks are declared and pushed one by one
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

double SourceStep(const Inputs& in) { return TokenSeconds(in.from, in.request.n_kv, std::max(1, in.from.running)); }

// A destination that decodes nothing takes a block at once.
double DestinationStep(const Inputs& in) { return in.to.running > 0 ? TokenSeconds(in.to, in.request.n_kv, in.to.running) : 0; }

// Each block leaves the source's cache, and enters the destination's, between two decode steps.
double StepsWaited(const Inputs& in, int64_t blocks) {
  return static_cast<double>(blocks) * (SourceStep(in) + DestinationStep(in));
}
int64_t Blocks(int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

// `cells` for all layers, of so many bytes, while the source decodes.
double ShipSeconds(const Inputs& in, int64_t cells, double bytes) {
  return kRoundCalls * in.link.rtt_seconds + bytes / Bandwidth(in) +
         static_cast<double>(cells) * in.to.import_s + StepsWaited(in, Blocks(cells));
}

double ShipSeconds(const Inputs& in, int64_t cells) { return ShipSeconds(in, cells, static_cast<double>(FullBytes(in, cells))); }

// The tail goes for all layers in every mode that ships cells. The source does not decode this request any more.
double TailSeconds(const Inputs& in, int64_t tail, double bytes) {
  return bytes / Bandwidth(in) + static_cast<double>(tail) * in.to.import_s + static_cast<double>(Blocks(tail)) * DestinationStep(in);
}
double TailSeconds(const Inputs& in, int64_t tail) { return TailSeconds(in, tail, static_cast<double>(FullBytes(in, tail))); }

// What follows the first round of pre-copy.
struct Rounds {
  int count = 1;             // the first included
  double later_seconds = 0;  // without the first
  int64_t tail = 1;          // cells left at the pause
};

// Each round leaves the cells that the source decoded during it. `round`: seconds for so many cells.
Rounds Converge(const Inputs& in, double first_seconds, const std::function<double(int64_t)>& round) {
  const double step = SourceStep(in);
  Rounds rounds;
  double seconds = first_seconds;
  for (int64_t last = 0;; last = rounds.tail) {
    const double decoded = step > 0 ? std::ceil(seconds / step) : 1;
    rounds.tail = static_cast<int64_t>(std::clamp(decoded, 1.0, std::max(1.0, static_cast<double>(in.request.tokens_left))));
    const bool shrinks = last == 0 || static_cast<double>(rounds.tail) < kShrinks * static_cast<double>(last);
    if (rounds.tail <= kFewCells || !shrinks || rounds.count == kMostRounds) return rounds;
    seconds = round(rounds.tail);
    rounds.later_seconds += seconds;
    ++rounds.count;
  }
}

// From the end of the first round to the commit, and the pause, which is a part of it and the first step there.
// Returns what it adds to the total.
double AddEnd(const Inputs& in, const Rounds& rounds, double tail_seconds, ModeCost& cost) {
  const double step = SourceStep(in);
  const double copy = 2 * in.link.rtt_seconds + tail_seconds + in.commit_seconds;
  cost.terms["n_rounds"] = rounds.count;
  cost.terms["rounds_s"] = rounds.later_seconds;
  cost.terms["final_s"] = step + copy;
  cost.terms["pause_steps_s"] = kPauseSteps * step;
  cost.terms["pause_rtt_s"] = 2 * in.link.rtt_seconds;
  cost.terms["pause_tail_s"] = tail_seconds;
  cost.terms["pause_commit_s"] = in.commit_seconds;
  cost.pause_seconds = kPauseSteps * step + copy;
  return rounds.later_seconds + step + copy;
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
double PlacementSeconds(const Inputs& in, bool absent, int64_t set_bytes, double moves) {
  if (!absent) return 0;
  double sharing = std::max(1.0, moves);
  return static_cast<double>(set_bytes) / Bandwidth(in) / sharing;
}

}  // namespace

int64_t OmittedTokens(const ProfileFacts& profile, int64_t n_kv) {
  return std::max<int64_t>(0, n_kv - profile.exact_ends);
}

int64_t CodedTokens(const CodedFacts& coded, int64_t n_kv) { return std::max<int64_t>(0, n_kv - coded.ends); }

int64_t CodedBytes(const CodedFacts& coded, int64_t n_kv) {
  const double body = static_cast<double>(CodedTokens(coded, n_kv));
  return std::llround(body * coded.token_bytes + (static_cast<double>(n_kv) - body) * coded.end_token_bytes);
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
  double rtt = kRoundCalls * in.link.rtt_seconds;
  double steps = StepsWaited(in, Blocks(in.request.n_kv));
  double first = rtt + transfer + import + steps;
  Rounds rounds = Converge(in, first, [&in](int64_t cells) { return ShipSeconds(in, cells); });
  cost.terms["rtt_s"] = rtt;
  cost.terms["transfer_s"] = transfer;
  cost.terms["import_s"] = import;
  cost.terms["steps_s"] = steps;
  Total(in, first + AddEnd(in, rounds, TailSeconds(in, rounds.tail), cost), cost);
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
  double set = PlacementSeconds(in, p.absent, p.set_bytes, p.moves);
  double rtt = kRoundCalls * in.link.rtt_seconds;
  double steps = StepsWaited(in, Blocks(in.request.n_kv) + 1);  // the ends are cut off the body
  double first = rtt + std::max(transfer, rebuild) + last_block + import + steps + set;
  Rounds rounds = Converge(in, first - set, [&in](int64_t cells) { return ShipSeconds(in, cells); });
  cost.terms["rtt_s"] = rtt;
  cost.terms["transfer_s"] = transfer;
  cost.terms["rebuild_s"] = rebuild;
  cost.terms["pipeline_s"] = std::max(transfer, rebuild) + last_block;
  cost.terms["import_s"] = import;
  cost.terms["steps_s"] = steps;
  cost.terms["set_s"] = set;
  cost.terms["bytes_saved"] = static_cast<double>(saved);
  Total(in, first + AddEnd(in, rounds, TailSeconds(in, rounds.tail), cost), cost);
  if (cost.possible && omitted == 0) {
    cost.possible = false;
    cost.why_not = "the request has no more tokens than the exact ends";
  }
  return cost;
}

ModeCost CodedCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kCoded);
  if (!in.coded) {
    cost.possible = false;
    if (cost.why_not.empty()) cost.why_not = "no predictor set with a usable coded profile";
    return cost;
  }
  const CodedFacts& c = *in.coded;
  const int64_t n_kv = in.request.n_kv, body = CodedTokens(c, n_kv);
  cost.bytes = CodedBytes(c, n_kv);
  double transfer = static_cast<double>(cost.bytes) / Bandwidth(in);
  double encode_token = in.from.coded_encode_s / Free(in.from), decode_token = in.to.coded_decode_s / Free(in.to);
  double encode = static_cast<double>(body) * encode_token, decode = static_cast<double>(body) * decode_token;
  // Block by block: the first is coded before anything moves, the last decoded after everything has.
  double fill = static_cast<double>(std::min(kBlockTokens, body)) * (encode_token + decode_token);
  double pipeline = std::max({transfer, encode, decode}) + fill;
  double import = static_cast<double>(n_kv) * in.to.import_s;
  double set = PlacementSeconds(in, c.absent, c.set_bytes, c.moves);
  double rtt = (1 + kBlockCalls * static_cast<double>(Blocks(n_kv))) * in.link.rtt_seconds;
  double steps = StepsWaited(in, Blocks(n_kv) + 1);  // the ends are cut off the body
  double first = rtt + pipeline + import + steps + set;
  auto tail_bytes = [&c](int64_t cells) { return static_cast<double>(cells) * c.end_token_bytes; };
  Rounds rounds = Converge(in, first - set, [&](int64_t cells) { return ShipSeconds(in, cells, tail_bytes(cells)); });
  cost.terms["rtt_s"] = rtt;
  cost.terms["transfer_s"] = transfer;
  cost.terms["encode_s"] = encode;
  cost.terms["decode_s"] = decode;
  cost.terms["pipeline_s"] = pipeline;
  cost.terms["import_s"] = import;
  cost.terms["steps_s"] = steps;
  cost.terms["set_s"] = set;
  cost.terms["bytes_saved"] = static_cast<double>(FullBytes(in, n_kv) - cost.bytes);
  Total(in, first + AddEnd(in, rounds, TailSeconds(in, rounds.tail, tail_bytes(rounds.tail)), cost), cost);
  if (cost.possible && body == 0) {
    cost.possible = false;
    cost.why_not = "the request has no more tokens than the ends";
  }
  return cost;
}

ModeCost ReplayCost(const Inputs& in) {
  ModeCost cost = Start(in, Mode::kReplay);
  double tokens = static_cast<double>(in.request.n_kv);
  cost.bytes = in.request.n_tokens * kTokenBytes;
  double transfer = static_cast<double>(cost.bytes) / Bandwidth(in);
  double replay = (in.to.prefill_p1 * tokens + in.to.prefill_p2 * tokens * tokens) / Free(in.to);
  double rtt = kRoundCalls * in.link.rtt_seconds;
  // Later cells are computed, not shipped: c tokens on top of a context of T cost p1*c + 2*p2*T*c.
  auto compute = [&in, tokens](int64_t cells) {
    double c = static_cast<double>(cells);
    return (in.to.prefill_p1 * c + 2 * in.to.prefill_p2 * tokens * c) / Free(in.to);
  };
  double first = rtt + transfer + replay;
  Rounds rounds = Converge(in, first, [&](int64_t cells) { return kRoundCalls * in.link.rtt_seconds + compute(cells); });
  cost.terms["rtt_s"] = rtt;
  cost.terms["transfer_s"] = transfer;
  cost.terms["replay_s"] = replay;
  Total(in, first + AddEnd(in, rounds, compute(rounds.tail), cost), cost);
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
