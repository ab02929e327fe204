#include "services/cli/demo/link_table.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/cli/names.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

std::string Label(const MoveSpec& spec) {
  if (spec.profile.empty()) return ShortName(spec.mode);
  return fmt::format("{} {}{}", ShortName(spec.mode), spec.profile, spec.allow_ungated ? " (UNGATED)" : "");
}

std::string EqualText(const LinkRow& row) {
  const std::size_t all = row.report.tokens.size();
  return row.equal_until < 0 ? fmt::format("all {}", all) : fmt::format("{} of {}", row.equal_until, all);
}

}  // namespace

int64_t FirstDifference(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return x == a.end() && y == b.end() ? -1 : x - a.begin();
}

absl::Status RunComparison(Cluster& cluster, const std::vector<MoveSpec>& specs, Narrator& narrator,
                           const Clock& clock, LinkComparison& comparison) {
  for (const MoveSpec& spec : specs) {
    LinkRow row;
    row.spec = spec;
    Narrator quiet = narrator.Quiet();
    ASSIGN_OR_RETURN(row.report, RunMove(cluster, spec, quiet, clock));
    row.equal_until = FirstDifference(comparison.unmoved, row.report.tokens);
    narrator.Line(fmt::format("{}: {} sent, pause {}", Label(spec),
                              HumanBytes(row.report.outcome.stats().bytes_sent()),
                              HumanMs(row.report.pause_ms)));
    comparison.rows.push_back(std::move(row));
  }
  return absl::OkStatus();
}

Json ToJson(const LinkComparison& comparison) {
  Json rows = Json::array();
  for (const LinkRow& row : comparison.rows) {
    const v1::Outcome& outcome = row.report.outcome;
    rows.push_back({{"mode", ShortName(outcome.mode())},
                    {"profile", outcome.profile()},
                    {"bytes_sent", outcome.stats().bytes_sent()},
                    {"bytes_full", outcome.stats().bytes_full()},
                    {"total_ms", outcome.total_ms()},
                    {"pause_ms", row.report.pause_ms},
                    {"encode_ms", outcome.stats().encode_ms()},
                    {"decode_ms", outcome.stats().decode_ms()},
                    {"tokens", row.report.tokens.size()},
                    {"equal_until", row.equal_until}});
  }
  return {{"mbit", comparison.mbit},
          {"moves", std::move(rows)},
          {"coded_left_out",
           comparison.coded_left_out.empty() ? Json(nullptr) : Json(comparison.coded_left_out)}};
}

std::string LinkTableText(const LinkComparison& comparison) {
  Table table({fmt::format("over {} Mbit/s", comparison.mbit), ">bytes sent", ">times fewer", ">whole move",
               ">pause", ">greedy tokens equal until"});
  for (const LinkRow& row : comparison.rows) {
    const v1::MoveStats& s = row.report.outcome.stats();
    const double fewer =
        s.bytes_sent() > 0 ? static_cast<double>(s.bytes_full()) / static_cast<double>(s.bytes_sent()) : 0;
    table.Add({Label(row.spec), HumanBytes(s.bytes_sent()), fewer > 0 ? fmt::format("{:.1f}", fewer) : "-",
               HumanMs(row.report.outcome.total_ms()), HumanMs(row.report.pause_ms), EqualText(row)});
  }
  std::string text = table.ToString();
  if (!comparison.coded_left_out.empty())
    text += fmt::format("CODED is left out: {}\n", comparison.coded_left_out);
  return text;
}

}  // namespace riskkv::cli
