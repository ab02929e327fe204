#include "services/worker/core/predictor_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

constexpr int kMeasureRuns = 5;

// A profile of every group: never written anywhere, only for measuring.
Profile AllGroups(const PredictorSet& set) {
  Profile all;
  all.name = "all groups";
  all.mode = TransferMode::kRisk;
  for (std::size_t g = 0; g < set.groups().size(); ++g) all.groups.push_back(static_cast<int>(g));
  all.omitted_layers = TargetsOf(set.groups(), all.groups);
  return all;
}

}  // namespace

absl::StatusOr<double> MeasureRebuild(kernels::Backend& backend, kernels::SetHandle handle, const PredictorSet& set) {
  const Profile all = AllGroups(set);
  if (all.groups.empty()) return 0.0;
  const KvBlock shipped = KvBlock::Make(set.layout(), {0, kernels::kTileTokens}, ShippedLayers(set, all));
  std::vector<double> seconds;
  for (int i = 0; i < kMeasureRuns; ++i) {
    const absl::Time start = absl::Now();
    if (auto rebuilt = RebuildBlock(backend, handle, set, all, shipped); !rebuilt.ok()) return rebuilt.status();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kMeasureRuns / 2, seconds.end());
  return seconds[kMeasureRuns / 2] / kernels::kTileTokens / static_cast<double>(all.groups.size());
}

PredictorStore::PredictorStore(std::string directory, Fingerprint model, kernels::Backend* backend, Logger log)
    : directory_(std::move(directory)), model_(std::move(model)), backend_(backend), log_(std::move(log)) {}

absl::StatusOr<int> PredictorStore::LoadFolder() {
  if (directory_.empty()) return 0;
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  std::filesystem::directory_iterator files(directory_, error);
  if (error) {
    return absl::InvalidArgumentError(fmt::format("predictor folder {}: {}", directory_, error.message()));
  }
  for (const auto& file : files) {
    if (!file.is_regular_file() || file.path().extension() != PredictorSet::kExtension) continue;
    auto set = PredictorSet::Open(file.path().string());
    absl::Status status = set.ok() ? set.value()->CheckModel(model_) : set.status();
    if (status.ok()) {
      auto loaded = Prepare(*std::move(set));
      status = loaded.status();
      if (loaded.ok()) {
        log_->info("predictor set {} ready: {} groups, {:.1f} us a token and group", (*loaded)->set->digest(),
                   (*loaded)->set->groups().size(), (*loaded)->rebuild_s * 1e6);
        MutexLock lock(mu_);
        sets_[(*loaded)->set->digest()] = *std::move(loaded);
      }
    }
    if (!status.ok()) log_->warn("predictor set {} skipped: {}", file.path().string(), status);
  }
  MutexLock lock(mu_);
  return static_cast<int>(sets_.size());
}

absl::StatusOr<std::shared_ptr<const LoadedSet>> PredictorStore::Prepare(std::shared_ptr<const PredictorSet> set) const {
  auto loaded = std::make_shared<LoadedSet>();
  ASSIGN_OR_RETURN(loaded->uploaded, UploadedSet::Create(*backend_, *set));
  ASSIGN_OR_RETURN(loaded->rebuild_s, MeasureRebuild(*backend_, loaded->uploaded->handle(), *set));
  loaded->set = std::move(set);
  return loaded;
}

absl::StatusOr<std::shared_ptr<const LoadedSet>> PredictorStore::Get(const std::string& digest) const {
  MutexLock lock(mu_);
  auto it = sets_.find(digest);
  if (it != sets_.end()) return it->second;
  return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                   fmt::format("predictor set {} is not among the {} held here", digest, sets_.size()));
}

bool PredictorStore::Has(const std::string& digest) const {
  MutexLock lock(mu_);
  return sets_.count(digest) > 0;
}

std::vector<std::shared_ptr<const LoadedSet>> PredictorStore::List() const {
  MutexLock lock(mu_);
  std::vector<std::shared_ptr<const LoadedSet>> out;
  for (const auto& [digest, set] : sets_) out.push_back(set);
  return out;
}

absl::StatusOr<std::shared_ptr<const LoadedSet>> PredictorStore::Add(const std::string& digest, std::string bytes) {
  if (auto held = Get(digest); held.ok()) return held;
  // The digest first: nothing of a file that is not what it should be is looked into.
  if (std::string got = Sha256Hex(bytes); got != digest) {
    return MakeError(absl::StatusCode::kDataLoss, "DIGEST",
                     fmt::format("predictor set {}: the {} bytes that came have SHA-256 {}", digest, bytes.size(), got));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const PredictorSet> set, PredictorSet::FromBytes(bytes, digest, digest));
  RETURN_IF_ERROR(set->CheckModel(model_));
  if (!directory_.empty()) {
    auto path = WritePredictorSet(bytes, directory_ + "/");
    if (path.ok()) {
      ASSIGN_OR_RETURN(set, PredictorSet::Open(*path, digest));
    } else if (absl::IsResourceExhausted(path.status())) {
      return path.status();
    } else {
      log_->warn("predictor set {} is held in memory only: {}", digest, path.status());  // a folder mounted read-only
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const LoadedSet> loaded, Prepare(std::move(set)));
  MutexLock lock(mu_);
  return sets_.emplace(digest, std::move(loaded)).first->second;
}

double PredictorStore::RebuildSeconds() const {
  MutexLock lock(mu_);
  double sum = 0;
  for (const auto& [digest, set] : sets_) sum += set->rebuild_s;
  return sets_.empty() ? 0 : sum / static_cast<double>(sets_.size());
}

}  // namespace riskkv::worker
