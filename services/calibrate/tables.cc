#include "services/calibrate/tables.h"

#include <algorithm>
#include <cmath>

#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/plan.h"

namespace riskkv::calibrate {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string Groups(const std::vector<int>& groups) {
  return groups.empty() ? "-" : fmt::format("{}", fmt::join(groups, "+"));
}

// Share of the cache's layers that a profile or candidate omits, ends not counted.
double OmittedShare(const PredictorSet& set, std::size_t layers) {
  return static_cast<double>(layers) / set.layout().n_layer;
}

std::string GroupRows(const PredictorSet& set) {
  std::string out = fmt::format("{:<6} {:<14} {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "group",
                                "anchors", "targets", "lambda", "error", "risk", "low95", "high95", "MiB");
  for (std::size_t g = 0; g < set.groups().size(); ++g) {
    const GroupInfo& i = set.groups()[g];
    out += fmt::format("{:<6} {:<14} {:<10} {:>9.1e} {:>8.2f}% {:>+9.5f} {:>+9.5f} {:>+9.5f} {:>9.3f}\n", g,
                       fmt::format("{}", fmt::join(i.spec.anchors, ",")),
                       fmt::format("{}", fmt::join(i.spec.targets, ",")), i.lambda, 100 * i.held_out_error,
                       i.risk.mean, i.risk.low95, i.risk.high95, set.GroupBytes(static_cast<int>(g)) / kMiB);
  }
  return out;
}

std::string PathRows(const PredictorSet& set) {
  std::string out = fmt::format("{:<22} {:>8} {:>9} {:>9} {:>9}   {:>9} {:>9}\n", "groups omitted",
                                "of cache", "mean", "upper90", "worst", "confirm", "upper90");
  for (const PathPoint& p : set.info().path) {
    out += fmt::format("{:<22} {:>7.1f}% {:>+9.5f} {:>+9.5f} {:>+9.5f}", Groups(p.groups),
                       100 * OmittedShare(set, TargetsOf(set.groups(), p.groups).size()), p.select.mean,
                       p.select.upper90, p.select.worst);
    out += p.confirm.windows > 0 ? fmt::format("   {:>+9.5f} {:>+9.5f}\n", p.confirm.mean, p.confirm.upper90)
                                 : fmt::format("   {:>9} {:>9}\n", "-", "-");
  }
  return out;
}

std::string ProfileRows(const PredictorSet& set) {
  std::string out = fmt::format("{:<16} {:<22} {:>8} {:<13} {:>9} {:>9}   {}\n", "profile", "groups omitted",
                                "of cache", "gate", "mean", "upper90", "ends exact");
  for (const auto& [name, p] : set.profiles()) {
    out += fmt::format("{:<16} {:<22} {:>7.1f}% {:<13} {:>+9.5f} {:>+9.5f}   first {}, last {}\n", name,
                       Groups(p.groups), 100 * OmittedShare(set, p.omitted_layers.size()), p.gate,
                       p.select.mean, p.select.upper90, p.ends.first, p.ends.last);
  }
  out += fmt::format("\n{:<16} {:<9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "profile", "split", "requests",
                     "low95", "high95", "p50", "p90", "p99", "worst");
  for (const auto& [name, p] : set.profiles()) {
    for (const auto& [split, s] : {std::pair{"select", &p.select}, std::pair{"confirm", &p.confirm}}) {
      if (s->windows == 0) continue;
      out += fmt::format("{:<16} {:<9} {:>8} {:>+9.5f} {:>+9.5f} {:>+9.5f} {:>+9.5f} {:>+9.5f} {:>+9.5f}\n", name, split,
                         s->windows, s->low95, s->high95, s->p50, s->p90, s->p99, s->worst);
    }
  }
  return out;
}

}  // namespace

std::string SetTable(const PredictorSet& set) {
  const Fingerprint& f = set.fingerprint();
  std::string out =
      fmt::format("predictor set {}\nmodel {}, {} layers, {} key/value heads of {}, weights {}\n",
                  set.digest(), f.architecture, f.layout.n_layer, f.layout.n_head_kv, f.layout.head_dim,
                  f.weights_digest.substr(0, 16));
  out += fmt::format("layout {}, weights {}, {:.2f} MiB\n\n", set.info().layout, set.weight_type_name(),
                     set.file_bytes() / kMiB);
  out += GroupRows(set) + "\n";
  if (!set.info().path.empty()) out += PathRows(set) + "\n";
  out += ProfileRows(set);
  out +=
      "\nrisk, mean, p50 to worst: change of NLL in nats per token, rebuilt minus exact; p50 to worst over requests, low95 to "
      "upper90 of the mean. error: held-out squared "
      "error / variance.\n";
  return out;
}

nlohmann::json SetJson(const PredictorSet& set) {
  nlohmann::json j = ToJson(set.info());
  for (std::size_t g = 0; g < set.groups().size(); ++g)
    j["groups"][g]["bytes"] = set.GroupBytes(static_cast<int>(g));
  j["fingerprint"] = ToJson(set.fingerprint());
  j["digest"] = set.digest();
  j["weights"] = set.weight_type_name();
  j["file_bytes"] = set.file_bytes();
  for (auto& [name, p] : j["profiles"].items())
    p["omitted_fraction"] = OmittedShare(set, p["omitted_layers"].size());
  return j;
}

std::string CalibrationTable(const CalibrationResult& r, const std::string& path) {
  std::string out = SetTable(*r.set) + "\n";
  out += fmt::format("windows: fit {} ({} articles), select {} ({}), confirm {} ({}); {:.0f} s\n",
                     r.windows.fit, r.articles.fit, r.windows.select, r.articles.select, r.windows.confirm,
                     r.articles.confirm, r.seconds_total);
  if (r.time.engine > 0) {
    out += fmt::format("engine: {} tokens in {:.0f} s; the whole run took {:.2f} times that floor\n", r.time.tokens,
                       r.time.engine, r.time.total / r.time.engine);
  }
  for (const BudgetResult& b : r.budgets) {
    out += b.profile == "exact"
               ? fmt::format("budget {:g}: no candidate passes the {} gate: the profile is exact\n",
                             b.epsilon, GateName(b.gate))
               : fmt::format("budget {:g}: {}\n", b.epsilon, b.profile);
  }
  const bool few_confirm = r.windows.confirm > 0 && r.windows.confirm < kFewestGateWindows;
  if (r.windows.select < kFewestGateWindows || few_confirm) {
    out += fmt::format(
        "too few windows for any gate: at least {} of each text are needed (give it more time or text)\n",
        kFewestGateWindows);
  }
  if (r.set->profiles().count("ungated-safest") > 0) {
    out += "nothing is admissible: \"ungated-safest\" omits the safest group alone and passed no gate\n";
  }
  return out + fmt::format("written: {}\n", path);
}

nlohmann::json CalibrationJson(const CalibrationResult& r, const std::string& path) {
  nlohmann::json j = {
      {"path", path}, {"seconds", r.seconds_total}, {"set", SetJson(*r.set)}, {"exact_nll", r.exact_nll}};
  j["engine"] = {{"seconds", r.time.engine}, {"tokens", r.time.tokens}};
  j["windows"] = {{"fit", r.windows.fit}, {"select", r.windows.select}, {"confirm", r.windows.confirm}};
  for (const BudgetResult& b : r.budgets) {
    j["budgets"].push_back({{"epsilon", b.epsilon}, {"gate", GateName(b.gate)}, {"profile", b.profile}});
  }
  for (const auto& [groups, m] : r.measured) {
    nlohmann::json windows = nlohmann::json::array();
    for (const WindowNll& w : m.windows)
      windows.push_back({{"article", w.article}, {"exact", w.exact}, {"rebuilt", w.rebuilt}});
    j["measured"][groups] = {
        {"stats", ToJson(m.stats)}, {"windows", std::move(windows)}, {"delta_by_token", m.delta_by_token}};
  }
  return j;
}

std::string EvaluationTable(const Evaluation& e) {
  const RiskStats& s = e.measurement.stats;
  std::string out =
      fmt::format("profile {} on {} windows of {} articles (the text has {} windows), history {}, horizon {}\n",
                  e.profile, s.windows, s.articles, e.windows_available, e.shape.history, e.shape.horizon);
  if (e.rebuilt_cells == 0 && e.profile != "exact")
    out += "such a request is no longer than the ends: nothing is rebuilt, it moves whole\n";
  out += fmt::format("perplexity      exact {:.4f}, rebuilt {:.4f} ({:+.2f} %)\n", e.perplexity_exact,
                     e.perplexity_rebuilt, 100 * (e.perplexity_rebuilt / e.perplexity_exact - 1));
  out += fmt::format(
      "change of NLL   {:+.5f} nats per token, 95 % interval [{:+.5f}, {:+.5f}], upper 90 % {:+.5f}\n",
      s.mean, s.low95, s.high95, s.upper90);
  out += fmt::format("over requests   p50 {:+.5f}, p90 {:+.5f}, p99 {:+.5f}, worst {:+.5f}\n", s.p50, s.p90, s.p99,
                     s.worst);
  out += fmt::format("bytes           {} of {} ({:.1f} % saved)\n", e.bytes_sent, e.bytes_full,
                     100 * (1 - static_cast<double>(e.bytes_sent) /
                                    static_cast<double>(std::max<int64_t>(1, e.bytes_full))));
  if (e.epsilon > 0) {
    const bool mean = s.mean <= e.epsilon, bound = s.upper90 <= e.epsilon;
    out += fmt::format("gate            {}: budget {:g}, the mean is {}, the upper bound is {}\n", GateVerdict(e),
                       e.epsilon, mean ? "within" : "ABOVE", bound ? "within" : "ABOVE");
  }
  return out;
}

}  // namespace riskkv::calibrate
