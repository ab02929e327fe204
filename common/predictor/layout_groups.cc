#include "common/predictor/layout_groups.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "common/base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace riskkv {
namespace {

constexpr std::size_t kMaxLayoutFile = 1 << 20;

bool AscendingWithin(const std::vector<int>& layers, int n_layer) {
  int last = -1;
  for (int l : layers) {
    if (l <= last || l >= n_layer) return false;
    last = l;
  }
  return !layers.empty();
}

// `side` anchors, then runs of `run` targets with `side` anchors after each.
std::vector<GroupSpec> RepeatedGroups(int n_layer, int side, int run) {
  std::vector<GroupSpec> groups;
  for (int at = 0; at + 2 * side + run <= n_layer; at += side + run) {
    GroupSpec group;
    for (int i = 0; i < 2 * side + run; ++i)
      (i < side || i >= side + run ? group.anchors : group.targets).push_back(at + i);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<GroupSpec> AllAnchorGroups(int n_layer) {
  std::vector<GroupSpec> groups = PeriodFourGroups(n_layer);
  std::set<int> anchors;
  for (const GroupSpec& g : groups) anchors.insert(g.anchors.begin(), g.anchors.end());
  for (GroupSpec& g : groups) g.anchors.assign(anchors.begin(), anchors.end());
  return groups;
}

}  // namespace

std::vector<GroupSpec> PeriodFourGroups(int n_layer) { return RepeatedGroups(n_layer, 2, 2); }

absl::StatusOr<GroupLayout> MakeGroupLayout(const std::string& name_or_path, int n_layer) {
  GroupLayout layout{name_or_path, {}};
  if (name_or_path == "paper" || name_or_path == "period-four") {
    layout = {"period-four", PeriodFourGroups(n_layer)};
  } else if (name_or_path == "one-anchor") {
    layout.groups = RepeatedGroups(n_layer, 1, 2);
  } else if (name_or_path == "runs-of-three") {
    layout.groups = RepeatedGroups(n_layer, 2, 3);
  } else if (name_or_path == "all-anchors") {
    layout.groups = AllAnchorGroups(n_layer);
  } else {
    return ReadGroupLayout(name_or_path, n_layer);
  }
  if (!layout.groups.empty()) return layout;
  return absl::FailedPreconditionError(
      fmt::format("a model of {} layers has no groups of layout {}", n_layer, layout.name));
}

absl::Status CheckGroups(const std::vector<GroupSpec>& groups, int n_layer) {
  std::set<int> targets, anchors;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!AscendingWithin(groups[g].anchors, n_layer) || !AscendingWithin(groups[g].targets, n_layer)) {
      return absl::InvalidArgumentError(fmt::format(
          "group {}: anchors [{}] and targets [{}] must be ascending, not empty and within [0, {})", g,
          fmt::join(groups[g].anchors, ","), fmt::join(groups[g].targets, ","), n_layer));
    }
    anchors.insert(groups[g].anchors.begin(), groups[g].anchors.end());
    for (int t : groups[g].targets) {
      if (!targets.insert(t).second) {
        return absl::InvalidArgumentError(fmt::format("group {}: layer {} is a target twice", g, t));
      }
    }
  }
  for (int t : targets) {
    if (anchors.count(t) > 0) {
      return absl::InvalidArgumentError(
          fmt::format("layer {} is a target and an anchor: anchors are always shipped", t));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupLayout> ReadGroupLayout(const std::string& path, int n_layer) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return absl::InvalidArgumentError(fmt::format("{} is a folder, not a layout", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() > kMaxLayoutFile) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes is too large for a layout", path, text.size()));
  }
  GroupLayout layout;
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    layout.name = j.at("name").get<std::string>();
    for (const auto& g : j.at("groups")) {
      layout.groups.push_back(
          {g.at("anchors").get<std::vector<int>>(), g.at("targets").get<std::vector<int>>()});
    }
  } catch (const nlohmann::json::exception& e) {
    return absl::InvalidArgumentError(fmt::format("{}: not a layout: {}", path, e.what()));
  }
  absl::Status status = CheckGroups(layout.groups, n_layer);
  if (!status.ok()) return Annotate(status, path);
  return layout;
}

}  // namespace riskkv
