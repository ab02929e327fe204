#include "services/cli/demo/report.h"

#include <algorithm>

#include "fmt/format.h"
#include "services/cli/exit_code.h"
#include "services/cli/names.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

double OmittedFraction(const ProfileChoice& c) {
  int layers = c.set.fingerprint().n_layer();
  return layers > 0 ? static_cast<double>(c.profile.omitted_layers_size()) / layers : 0;
}

double SavedFraction(const v1::MoveStats& s) {
  return s.bytes_full() > 0 ? 1.0 - static_cast<double>(s.bytes_sent()) / static_cast<double>(s.bytes_full())
                            : 0;
}

// Negative when the plan had no such alternative.
double ReplayMs(const v1::Plan& plan) {
  for (const v1::ModeCost& c : plan.alternatives()) {
    if (c.mode() == v1::MODE_REPLAY && c.possible()) return c.total_seconds() * 1e3;
  }
  return -1;
}

std::string Decision(const v1::Plan& plan) {
  return fmt::format("{}: {}", ShortName(plan.chosen()), plan.why());
}

// One move's promises.
void JudgeMove(const std::string& name, const MoveReport& m, v1::Mode wanted, Verdicts& v) {
  if (m.outcome.state() != v1::MIGRATION_STATE_SUCCEEDED) {
    v.not_moved = true;
    v.broken.push_back(fmt::format(
        "the {} move ended in {}{}", name, ShortName(m.outcome.state()),
        m.outcome.has_error()
            ? fmt::format(" ({}: {})", ShortName(m.outcome.error().reason()), m.outcome.error().message())
            : ""));
  } else if (m.outcome.mode() != wanted) {
    v.broken.push_back(fmt::format("the {} move was carried out as {}", name, ShortName(m.outcome.mode())));
  } else if (m.tokens_before == 0 || m.tokens_after == 0) {
    v.broken.push_back(
        fmt::format("the {} move did not happen while the request ran: {} tokens before it, {} after", name,
                    m.tokens_before, m.tokens_after));
  }
  if (m.lost != 0) v.broken.push_back(fmt::format("{} tokens lost in the {} move", m.lost, name));
  if (m.duplicated != 0)
    v.broken.push_back(fmt::format("{} tokens doubled in the {} move", m.duplicated, name));
  if (!m.log_matches)
    v.broken.push_back(
        fmt::format("the {} move's client received other tokens than its owner's log has", name));
}

void JudgeLink(const LinkComparison& link, Verdicts& v) {
  for (const LinkRow& row : link.rows) {
    const std::string name = fmt::format("slow {}", ShortName(row.spec.mode));
    JudgeMove(name, row.report, row.spec.mode, v);
    if (row.spec.mode == v1::MODE_FULL && row.equal_until >= 0)
      v.broken.push_back(fmt::format("the {} move's output differs from the unmoved run's at token {}", name, row.equal_until));
  }
}

}  // namespace

int64_t DemoResult::FullDifference() const { return FirstDifference(unmoved, full.tokens); }

Verdicts Judge(const DemoResult& r) {
  Verdicts v;
  JudgeMove("RISK", r.risk, v1::MODE_RISK, v);
  JudgeMove("FULL", r.full, v1::MODE_FULL, v);
  if (int64_t at = r.FullDifference(); at >= 0) {
    v.broken.push_back(fmt::format("the FULL move's output differs from the unmoved run's at token {}", at));
  }
  if (r.link) JudgeLink(*r.link, v);
  return v;
}

Json ReportJson(const DemoResult& r) {
  const v1::MoveStats& s = r.risk.outcome.stats();
  double replay_ms = ReplayMs(r.risk.plan);
  return {{"mode", ShortName(r.risk.outcome.mode())},
          {"predictor_set", r.choice.set.digest()},
          {"profile", r.choice.profile.name()},
          {"gated", r.choice.profile.gated()},
          {"groups_restored", r.choice.profile.groups_size()},
          {"omitted_fraction", OmittedFraction(r.choice)},
          {"bytes_saved_fraction", SavedFraction(s)},
          {"bytes_sent", s.bytes_sent()},
          {"bytes_full", s.bytes_full()},
          {"tokens_before", r.risk.tokens_before},
          {"tokens_after", r.risk.tokens_after},
          {"lost", r.risk.lost + r.full.lost},
          {"duplicated", r.risk.duplicated + r.full.duplicated},
          {"pause_ms", r.risk.pause_ms},
          {"precopy_ms", s.precopy_ms()},
          {"rebuild_ms", s.rebuild_ms()},
          {"replay_ms_estimate", replay_ms < 0 ? Json(nullptr) : Json(replay_ms)},
          {"probe_error", s.probe_error()},
          {"full_identical", r.FullDifference() < 0},
          {"decision", Decision(r.risk.plan)},
          {"link", r.link ? ToJson(*r.link) : Json(nullptr)}};
}

std::string ReportTable(const DemoResult& r) {
  const v1::MoveStats& s = r.risk.outcome.stats();
  const v1::MoveStats& f = r.full.outcome.stats();
  double replay_ms = ReplayMs(r.risk.plan);
  Table t({"", ">RISK", ">FULL"});
  t.Add({"prompt tokens", std::to_string(r.risk.prompt_tokens), std::to_string(r.full.prompt_tokens)});
  t.Add({"output tokens before / after the move",
         fmt::format("{} / {}", r.risk.tokens_before, r.risk.tokens_after),
         fmt::format("{} / {}", r.full.tokens_before, r.full.tokens_after)});
  t.Add({"lost / duplicated, counted by the client", fmt::format("{} / {}", r.risk.lost, r.risk.duplicated),
         fmt::format("{} / {}", r.full.lost, r.full.duplicated)});
  t.Add({"layers omitted", Percent(OmittedFraction(r.choice)), "0.0 %"});
  t.Add({"bytes sent", HumanBytes(s.bytes_sent()), HumanBytes(f.bytes_sent())});
  t.Add({"bytes of the whole cache", HumanBytes(s.bytes_full()), HumanBytes(f.bytes_full())});
  t.Add({"bytes saved", Percent(SavedFraction(s)), Percent(SavedFraction(f))});
  t.Add({"pre-copy, while decoding", HumanMs(s.precopy_ms()), HumanMs(f.precopy_ms())});
  t.Add({"rebuild", HumanMs(s.rebuild_ms()), "-"});
  t.Add({"probe error, share of its bound", Percent(s.probe_error()), "-"});
  t.Add({"pause, measured by the client", HumanMs(r.risk.pause_ms), HumanMs(r.full.pause_ms)});
  t.Add({"usual time between tokens", HumanMs(r.risk.token_ms), HumanMs(r.full.token_ms)});
  t.Add({"replay instead (estimate)", replay_ms < 0 ? "-" : HumanMs(replay_ms), "-"});
  t.Add({"output as in an unmoved run", "-",
         r.FullDifference() < 0 ? "identical" : fmt::format("differs at {}", r.FullDifference())});
  return t.ToString();
}

int ExitCodeFor(const Verdicts& v) {
  if (v.not_moved) return kExitNotMoved;
  return v.broken.empty() ? kExitOk : kExitBrokenPromise;
}

}  // namespace riskkv::cli
