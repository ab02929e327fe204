#include "common/cost/model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/cost/terms.h"
#include "fmt/format.h"

namespace riskkv::cost {
namespace {

std::string Seconds(double s) { return s < 1 ? fmt::format("{:.1f} ms", s * 1000) : fmt::format("{:.2f} s", s); }

std::map<std::string, double> InputsOf(const Inputs& in) {
  std::map<std::string, double> out = {
      {"n_layer", in.shape.n_layer},
      {"kv", in.shape.kv},
      {"element_bytes", in.shape.element_bytes},
      {"n_tokens", static_cast<double>(in.request.n_tokens)},
      {"n_kv", static_cast<double>(in.request.n_kv)},
      {"tokens_left", static_cast<double>(in.request.tokens_left)},
      {"bandwidth", in.link.bytes_per_second},
      {"rtt", in.link.rtt_seconds},
      {"link_assumed", in.link.assumed ? 1 : 0},
      {"link_age", in.link.age_seconds},
      {"commit", in.commit_seconds},
      {"max_pause", in.max_pause_seconds},
      {"must_move", in.must_move ? 1 : 0},
      {"c_rebuild", in.to.rebuild_s},
      {"c_import", in.to.import_s},
      {"c_export", in.from.export_s},
      {"c_encode", in.from.coded_encode_s},
      {"c_decode", in.to.coded_decode_s},
      {"p1", in.to.prefill_p1},
      {"p2", in.to.prefill_p2},
      {"load_source", in.from.load},
      {"load_destination", in.to.load},
      {"running_source", in.from.running},
      {"running_destination", in.to.running},
      {"decode_source", in.from.decode_s},
      {"decode_destination", in.to.decode_s},
      {"decode_per_token_source", in.from.decode_s_per_token},
      {"decode_per_token_destination", in.to.decode_s_per_token},
  };
  if (in.profile) {
    const ProfileFacts& p = *in.profile;
    out["omitted_layers"] = p.omitted_layers;
    out["groups"] = p.groups;
    out["predictor_bytes"] = static_cast<double>(p.predictor_bytes);
    out["set_bytes"] = static_cast<double>(p.set_bytes);
    out["exact_ends"] = static_cast<double>(p.exact_ends);
    out["gated"] = p.gated ? 1 : 0;
    out["sharing"] = std::max(1.0, p.moves);
  }
  if (in.coded) {
    const CodedFacts& c = *in.coded;
    out["coded_token_bytes"] = c.token_bytes;
    out["coded_end_token_bytes"] = c.end_token_bytes;
    out["coded_ends"] = static_cast<double>(c.ends);
    out["coded_set_bytes"] = static_cast<double>(c.set_bytes);
    out["coded_gated"] = c.gated ? 1 : 0;
    out["coded_sharing"] = std::max(1.0, c.moves);
  }
  for (const auto& [mode, factor] : in.corrections) out[fmt::format("correction_{}", Name(mode))] = factor;
  return out;
}

ModeCost* Find(Plan& plan, Mode mode) { return const_cast<ModeCost*>(static_cast<const Plan&>(plan).Find(mode)); }

bool FitsPause(const Inputs& in, const ModeCost& cost) { return cost.pause_seconds <= in.max_pause_seconds; }

// Those that fit the pause budget come first, then the shorter total.
bool Better(const Inputs& in, const ModeCost& a, const ModeCost& b) {
  if (FitsPause(in, a) != FitsPause(in, b)) return FitsPause(in, a);
  return a.total_seconds < b.total_seconds;
}

const ModeCost* BestMove(const Inputs& in, const Plan& plan) {
  const ModeCost* best = nullptr;
  for (const ModeCost& cost : plan.alternatives) {
    if (!cost.possible || cost.mode == Mode::kStay) continue;
    if (best == nullptr || Better(in, cost, *best)) best = &cost;
  }
  return best;
}

// Says of every possible alternative but the chosen one why it lost.
void ExplainLosers(const Inputs& in, Plan& plan) {
  const ModeCost* winner = plan.Find(plan.chosen);
  for (ModeCost& cost : plan.alternatives) {
    if (cost.mode == plan.chosen || !cost.possible) continue;
    if (plan.chosen == Mode::kStay) {
      cost.why_not = plan.why;
    } else if (cost.mode == Mode::kStay) {
      cost.why_not = plan.why;
    } else if (!FitsPause(in, cost)) {
      cost.why_not = fmt::format("a pause of {} is above the budget of {}", Seconds(cost.pause_seconds),
                                 Seconds(in.max_pause_seconds));
    } else {
      cost.why_not = fmt::format("{} in all, {} takes {}", Seconds(cost.total_seconds), Name(plan.chosen),
                                 Seconds(winner->total_seconds));
    }
  }
}

void Choose(const Inputs& in, Plan& plan) {
  const ModeCost* best = BestMove(in, plan);
  if (best == nullptr) {
    plan.chosen = Mode::kStay;
    plan.why = "no way of moving is possible";
    return;
  }
  if (in.must_move) {
    plan.chosen = best->mode;
    plan.why = fmt::format("the caller must move, and {} takes {}", Name(best->mode), Seconds(best->total_seconds));
    return;
  }
  const ModeCost* stay = plan.Find(Mode::kStay);
  double gain = stay->terms.at("gain_s");
  double price = best->pause_seconds + stay->terms.at("disturbance_s");
  bool pays = gain > price;
  plan.chosen = pays ? best->mode : Mode::kStay;
  plan.why = fmt::format("{} tokens left gain {} by moving; {} costs {} of pause and disturbance", in.request.tokens_left,
                         Seconds(gain), Name(best->mode), Seconds(price));
}

void Obey(const Inputs& in, Plan& plan) {
  plan.chosen = in.asked;
  plan.why = fmt::format("the caller asked for {}", Name(in.asked));
  const ModeCost* full = plan.Find(Mode::kFull);
  const bool no_body = (in.asked == Mode::kRisk && in.profile && OmittedTokens(*in.profile, in.request.n_kv) == 0) ||
                       (in.asked == Mode::kCoded && in.coded && CodedTokens(*in.coded, in.request.n_kv) == 0);
  if (!no_body || !full->possible) return;
  plan.chosen = Mode::kFull;
  plan.why = fmt::format("the caller asked for {}, but {} cells are no more than the {} {}ends", Name(in.asked), in.request.n_kv,
                         in.asked == Mode::kRisk ? in.profile->exact_ends : in.coded->ends, in.asked == Mode::kRisk ? "exact " : "");
}

// The set and profile of the chosen mode where it is lossy, else of RISK, else of CODED.
void NameProfile(const Inputs& in, Plan& plan) {
  if (in.coded && (plan.chosen == Mode::kCoded || !in.profile)) {
    plan.predictor_set = in.coded->predictor_set;
    plan.profile = in.coded->profile;
    plan.set_absent = in.coded->absent;
    plan.moves_per_set = in.coded->moves;
    plan.break_even_moves = BreakEvenMoves(in.shape, *in.coded, in.request.n_kv);
  } else if (in.profile) {
    plan.predictor_set = in.profile->predictor_set;
    plan.profile = in.profile->profile;
    plan.set_absent = in.profile->absent;
    plan.moves_per_set = in.profile->moves;
    plan.break_even_moves = BreakEvenMoves(in.shape, *in.profile, in.request.n_kv);
  }
}

}  // namespace

double BreakEvenMoves(const CacheShape& shape, const ProfileFacts& profile, int64_t n_kv) {
  int64_t saved = OmittedTokens(profile, n_kv) * profile.omitted_layers * shape.bytes_per_token_layer();
  return saved <= 0 ? 0 : std::ceil(static_cast<double>(profile.predictor_bytes) / static_cast<double>(saved));
}

double BreakEvenMoves(const CacheShape& shape, const CodedFacts& coded, int64_t n_kv) {
  const int64_t saved = n_kv * shape.n_layer * shape.bytes_per_token_layer() - CodedBytes(coded, n_kv);
  return saved <= 0 ? 0 : std::ceil(static_cast<double>(coded.set_bytes) / static_cast<double>(saved));
}

Plan MakePlan(const Inputs& in) {
  Plan plan;
  plan.source = in.source;
  plan.destination = in.destination;
  plan.inputs = InputsOf(in);
  plan.alternatives = {FullCost(in), RiskCost(in), CodedCost(in), ReplayCost(in), StayCost(in)};
  if (in.asked == Mode::kAuto || in.asked == Mode::kUnspecified) {
    Choose(in, plan);
  } else {
    Obey(in, plan);
  }
  NameProfile(in, plan);
  ExplainLosers(in, plan);
  if (ModeCost* chosen = Find(plan, plan.chosen); chosen != nullptr && chosen->possible) chosen->why_not.clear();
  return plan;
}

}  // namespace riskkv::cost
