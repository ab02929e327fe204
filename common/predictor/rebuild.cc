#include "common/predictor/rebuild.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "common/base/status.h"
#include "common/kv/convert.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

// Copies the shipped rows into their places among all layers.
void CopyShipped(const KvBlock& shipped, KvBlock& out) {
  const std::size_t rows = static_cast<std::size_t>(shipped.range.size()) * shipped.kv;
  for (std::size_t i = 0; i < shipped.layers.size(); ++i) {
    const int layer = shipped.layers[i];
    std::copy_n(shipped.k(static_cast<int>(i)), rows, out.k(layer));
    std::copy_n(shipped.v(static_cast<int>(i)), rows, out.v(layer));
  }
}

// `all` holds every layer, so a layer's number is its index.
kernels::RebuildJob MakeJob(kernels::SetHandle handle, int group, const GroupSpec& spec,
                            const std::vector<int32_t>& positions, KvBlock& all) {
  kernels::RebuildJob job;
  job.set = handle;
  job.group = group;
  job.n_tokens = static_cast<int>(positions.size());
  job.positions = positions.data();
  for (int a : spec.anchors) {
    job.anchor_k.push_back(all.k(a));
    job.anchor_v.push_back(all.v(a));
  }
  for (int t : spec.targets) {
    job.target_k.push_back(all.k(t));
    job.target_v.push_back(all.v(t));
  }
  return job;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadedSet>> UploadedSet::Create(kernels::Backend& backend,
                                                                 const PredictorSet& set) {
  kernels::SetHandle handle = 0;
  if (absl::Status status = ToAbsl(backend.Upload(set.View(), &handle)); !status.ok())
    return Annotate(status, set.path());
  return std::unique_ptr<UploadedSet>(new UploadedSet(backend, handle));
}

UploadedSet::~UploadedSet() { (void)backend_.Release(handle_); }

std::vector<int> ShippedLayers(const PredictorSet& set, const Profile& profile) {
  return LayersExcept(set.layout(), profile.omitted_layers);
}

absl::StatusOr<KvBlock> RebuildBlock(kernels::Backend& backend, kernels::SetHandle handle,
                                     const PredictorSet& set, const Profile& profile,
                                     const KvBlock& shipped) {
  RETURN_IF_ERROR(CheckBlock(set.layout(), shipped));
  const std::vector<int> wanted = ShippedLayers(set, profile);
  if (shipped.layers != wanted) {
    return absl::InvalidArgumentError(fmt::format("profile {} needs layers [{}], the block has [{}]",
                                                  profile.name, fmt::join(wanted, ","),
                                                  fmt::join(shipped.layers, ",")));
  }
  KvBlock all = KvBlock::Make(set.layout(), shipped.range, AllLayers(set.layout()));
  CopyShipped(shipped, all);
  std::vector<int32_t> positions(static_cast<std::size_t>(shipped.range.size()));
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(shipped.range.begin));
  std::vector<kernels::RebuildJob> jobs;
  for (int g : profile.groups) {
    jobs.push_back(MakeJob(handle, g, set.groups()[static_cast<std::size_t>(g)].spec, positions, all));
  }
  if (!jobs.empty() && !positions.empty()) RETURN_IF_ERROR(ToAbsl(backend.Rebuild(jobs)));
  return all;
}

}  // namespace riskkv
