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

}  // namespace

std::vector<GroupSpec> PeriodFourGroups(int n_layer) {
  std::vector<GroupSpec> groups;
  for (int at = 0; at + 6 <= n_layer; at += 4)
    groups.push_back({{at, at + 1, at + 4, at + 5}, {at + 2, at + 3}});
  return groups;
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
