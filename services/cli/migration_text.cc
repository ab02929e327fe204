#include "services/cli/migration_text.h"

#include <map>

#include "fmt/format.h"
#include "services/cli/exit_code.h"
#include "services/cli/names.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

// A plan names the profile a lossy mode would use, whatever was chosen.
std::string ProfileOf(const v1::Plan& plan) {
  if (plan.profile().empty() || (plan.chosen() != v1::MODE_RISK && plan.chosen() != v1::MODE_CODED)) return "";
  return fmt::format(", profile {} of set {}", plan.profile(), ShortDigest(plan.predictor_set()));
}

std::string ErrorText(const v1::ErrorDetail& e) {
  return fmt::format("{}: {}", ShortName(e.reason()), e.message());
}

std::string StatsText(const v1::MoveStats& s) {
  std::string text = fmt::format("sent {} of {}", HumanBytes(s.bytes_sent()), HumanBytes(s.bytes_full()));
  if (s.tokens_rebuilt() > 0) {
    text +=
        fmt::format("; rebuilt {} of {} cells in {}, probe at {} of its bound", s.tokens_rebuilt(),
                    s.tokens_rebuilt() + s.tokens_exact(), HumanMs(s.rebuild_ms()), Percent(s.probe_error()));
  }
  if (s.tokens_coded() > 0) {
    text += fmt::format("; coded {} of {} cells in {}, decoded in {}, probe at {} of its bound", s.tokens_coded(),
                        s.tokens_coded() + s.tokens_exact(), HumanMs(s.encode_ms()), HumanMs(s.decode_ms()),
                        Percent(s.probe_error()));
  }
  if (s.replay_ms() > 0) text += fmt::format("; replayed in {}", HumanMs(s.replay_ms()));
  return text;
}

std::string OutcomeText(const v1::Outcome& o) {
  if (o.state() == v1::MIGRATION_STATE_SUCCEEDED) {
    return fmt::format("{}: {} ({}) owns it at epoch {} from index {}; pause {}, {} in all",
                       ShortName(o.mode()), o.owner(), o.owner_address(), o.epoch(), o.start_index(),
                       HumanMs(o.pause_ms()), HumanMs(o.total_ms()));
  }
  std::string text = o.owner().empty() ? "" : fmt::format("{} owns it at epoch {}", o.owner(), o.epoch());
  if (o.has_error()) text += fmt::format("{}{}", text.empty() ? "" : "; ", ErrorText(o.error()));
  return text;
}

std::string DetailText(const v1::MigrationEvent& e) {
  switch (e.detail_case()) {
    case v1::MigrationEvent::kPlan:
      return fmt::format("{}{}: {}", ShortName(e.plan().chosen()), ProfileOf(e.plan()), e.plan().why());
    case v1::MigrationEvent::kRound:
      return fmt::format("round {}: cells below {} of {} tokens, {} in {}", e.round().round(),
                         e.round().frontier(), e.round().n_tokens(), HumanBytes(e.round().bytes()),
                         HumanSeconds(e.round().seconds()));
    case v1::MigrationEvent::kPaused:
      return fmt::format("at {} tokens, {} cells to go, {} predicted", e.paused().n_tokens(),
                         e.paused().remaining_cells(), HumanMs(e.paused().predicted_pause_ms()));
    case v1::MigrationEvent::kStats:
      return StatsText(e.stats());
    case v1::MigrationEvent::kFallback:
      return fmt::format("fallback {} -> {}: {}", ShortName(e.fallback().from()),
                         ShortName(e.fallback().to()), ErrorText(e.fallback().why()));
    case v1::MigrationEvent::kOutcome:
      return OutcomeText(e.outcome());
    case v1::MigrationEvent::DETAIL_NOT_SET:
      return "";
  }
  return "";
}

std::string Terms(const v1::ModeCost& cost) {
  std::map<std::string, double> sorted(cost.terms().begin(), cost.terms().end());
  std::string text;
  for (const auto& [name, value] : sorted) {
    if (value == 0 || name == "correction") continue;
    bool seconds = name.size() > 2 && name.compare(name.size() - 2, 2, "_s") == 0;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", seconds ? name.substr(0, name.size() - 2) : name,
                        seconds ? HumanSeconds(value) : fmt::format("{:.4g}", value));
  }
  return text;
}

}  // namespace

std::string EventLine(const v1::MigrationEvent& event) {
  std::string line =
      fmt::format("{:>10}  {:<9}", fmt::format("{:.1f} ms", event.elapsed_ms()), ShortName(event.state()));
  if (event.attempt() > 1) line += fmt::format("  attempt {}", event.attempt());
  std::string detail = DetailText(event);
  return detail.empty() ? line : line + "  " + detail;
}

std::string PlanSummary(const v1::Plan& plan) {
  std::string text = fmt::format("{} -> {}: {}{}\n  {}\n\n", plan.source(), plan.destination(),
                                 ShortName(plan.chosen()), ProfileOf(plan), plan.why());
  Table table({"MODE", ">TOTAL", ">PAUSE", ">BYTES", "WHY NOT"});
  for (const v1::ModeCost& c : plan.alternatives()) {
    bool costs = c.possible();
    std::string name = ShortName(c.mode());
    if (c.mode() == plan.chosen()) name = "*" + name;
    table.Add({name, costs ? HumanSeconds(c.total_seconds()) : "-",
               costs ? HumanSeconds(c.pause_seconds()) : "-", costs ? HumanBytes(c.bytes()) : "-",
               c.why_not()});
  }
  return text + table.ToString();
}

std::string PlanText(const v1::Plan& plan) {
  std::string text = PlanSummary(plan);
  std::vector<std::pair<std::string, std::string>> terms;
  for (const v1::ModeCost& c : plan.alternatives()) {
    if (c.possible()) terms.emplace_back(ShortName(c.mode()), Terms(c));
  }
  if (!terms.empty()) text += "\nmade of\n" + KeyValues(terms, "  ");
  std::map<std::string, double> inputs(plan.inputs().begin(), plan.inputs().end());
  if (!inputs.empty()) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& [name, value] : inputs) pairs.emplace_back(name, fmt::format("{:.6g}", value));
    text += "\ninputs\n" + KeyValues(pairs, "  ");
  }
  if (!plan.predictor_set().empty()) {
    text += fmt::format("\nset {}: used by {:.0f} moves, pays from {:.1f} on (N*){}\n",
                        ShortDigest(plan.predictor_set()), plan.moves_per_set(), plan.break_even_moves(),
                        plan.set_absent() ? "; the destination must fetch it first" : "");
  }
  return text;
}

std::string MigrationText(const v1::Migration& m) {
  std::string text = KeyValues({{"migration", m.migration_id()},
                                {"request", m.request().request_id()},
                                {"from", m.source()},
                                {"to", m.destination()},
                                {"mode asked", ShortName(m.request().mode())},
                                {"state", ShortName(m.state()) + (m.in_doubt() ? " (in doubt)" : "")},
                                {"attempts", std::to_string(m.attempts())},
                                {"age", HumanSeconds(m.age_seconds())}});
  text += "\n";
  for (const v1::MigrationEvent& event : m.events()) text += EventLine(event) + "\n";
  return text;
}

int ExitCodeFor(const v1::Outcome& outcome) {
  bool fine =
      outcome.state() == v1::MIGRATION_STATE_SUCCEEDED || outcome.state() == v1::MIGRATION_STATE_STAYED;
  return fine ? kExitOk : kExitNotMoved;
}

}  // namespace riskkv::cli
