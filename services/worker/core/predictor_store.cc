#include "services/worker/core/predictor_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

constexpr int kMeasureRuns = 5;
constexpr int kCodecRuns = 3;
constexpr float kMeasuredStep = 0.25f;

// A profile of every group: never written anywhere, only for measuring.
Profile AllGroups(const PredictorSet& set) {
  Profile all;
  all.name = "all groups";
  all.mode = TransferMode::kRisk;
  for (std::size_t g = 0; g < set.groups().size(); ++g) all.groups.push_back(static_cast<int>(g));
  all.omitted_layers = TargetsOf(set.groups(), all.groups);
  return all;
}

// A block whose residuals are levels of 0, 1 and -1: about what a coded profile finds.
absl::StatusOr<KvBlock> TypicalBlock(const BlockCodec& codec, const CodedPolicy& policy, CodecScratch& scratch) {
  QuantisedBlock levels;
  levels.range = {0, kCodedBlockTokens};
  uint32_t state = 1;
  for (const CodedUnit& unit : codec.weights().plan) {
    std::vector<int32_t> q(static_cast<std::size_t>(UnitWidth(unit, codec.layout().kv())) * kCodedBlockTokens);
    for (int32_t& level : q) {
      state = state * 1664525u + 1013904223u;
      level = static_cast<int32_t>(state >> 30) % 3 - 1;
    }
    levels.units.push_back(std::move(q));
  }
  return codec.Reconstruct(policy, levels, scratch);
}

struct CodecSeconds {
  double encode = 0, decode = 0;  // a token
};

// The best of a few runs over one block: what the codec costs when nothing else wants the core, as the load comes on top.
absl::StatusOr<CodecSeconds> MeasureCodec(const BlockCodec& codec) {
  CodecScratch scratch;
  ASSIGN_OR_RETURN(const CodedPolicy policy, codec.MakePolicy(kMeasuredStep));
  ASSIGN_OR_RETURN(const KvBlock block, TypicalBlock(codec, policy, scratch));
  CodecSeconds best;
  for (int i = 0; i < kCodecRuns; ++i) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(const std::string bytes, codec.Encode(policy, block, scratch));
    const absl::Time coded = absl::Now();
    RETURN_IF_ERROR(codec.Decode(policy, bytes, scratch).status());
    const double encode = absl::ToDoubleSeconds(coded - start) / kCodedBlockTokens;
    const double decode = absl::ToDoubleSeconds(absl::Now() - coded) / kCodedBlockTokens;
    best.encode = i == 0 ? encode : std::min(best.encode, encode);
    best.decode = i == 0 ? decode : std::min(best.decode, decode);
  }
  return best;
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
  PrepareCodec(*loaded);
  return loaded;
}

// The paper's profiles do not depend on a codec: one that this version cannot use leaves the set without coded profiles.
void PredictorStore::PrepareCodec(LoadedSet& loaded) const {
  if (!HasCodec(*loaded.set)) return;
  auto codec = OpenCodec(*loaded.set);
  auto profiles = ReadCodedProfiles(*loaded.set);
  auto seconds = codec.ok() ? MeasureCodec(**codec) : codec.status();
  for (const absl::Status& status : {profiles.status(), seconds.status()}) {
    if (status.ok()) continue;
    log_->warn("predictor set {}: its codec is not used: {}", loaded.set->digest(), status);
    return;
  }
  loaded.codec = *std::move(codec);
  loaded.coded = *std::move(profiles);
  loaded.encode_s = seconds->encode;
  loaded.decode_s = seconds->decode;
  log_->info("predictor set {}: codec ready, {} profiles, encode {:.1f} us and decode {:.1f} us a token", loaded.set->digest(),
             loaded.coded.size(), seconds->encode * 1e6, seconds->decode * 1e6);
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

SetCosts PredictorStore::Costs() const {
  MutexLock lock(mu_);
  SetCosts costs;
  double sets = 0, codecs = 0;
  for (const auto& [digest, set] : sets_) {
    costs.rebuild_s += set->rebuild_s;
    costs.encode_s += set->encode_s;
    costs.decode_s += set->decode_s;
    ++sets;
    if (set->codec != nullptr) ++codecs;
  }
  costs.rebuild_s /= std::max(1.0, sets);
  costs.encode_s /= std::max(1.0, codecs);
  costs.decode_s /= std::max(1.0, codecs);
  return costs;
}

}  // namespace riskkv::worker
