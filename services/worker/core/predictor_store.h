// The predictor sets a worker holds: files "<digest>.riskkv" in one folder, verified, loaded and uploaded to the backend.
#ifndef RISKKV_SERVICES_WORKER_CORE_PREDICTOR_STORE_H_
#define RISKKV_SERVICES_WORKER_CORE_PREDICTOR_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/codec/block_codec.h"
#include "common/codec/coded_profile.h"
#include "common/obs/log.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "kernels/backend.h"

namespace riskkv::worker {

// A set that is ready to rebuild with. Immutable and thread-safe; whoever holds one keeps it on the device.
struct LoadedSet {
  std::shared_ptr<const PredictorSet> set;
  std::unique_ptr<UploadedSet> uploaded;
  double rebuild_s = 0;  // seconds to rebuild one token of one group, measured when it was loaded
  std::unique_ptr<BlockCodec> codec;  // null without a codec section
  std::vector<CodedProfile> coded;
  double encode_s = 0;  // seconds to code one token of all layers, and to decode it; measured likewise
  double decode_s = 0;
};

// Over the sets a worker holds, as the coordinator's cost model wants them; 0 where no set has what it takes.
struct SetCosts {
  double rebuild_s = 0;
  double encode_s = 0;
  double decode_s = 0;
};

// Thread-safe. The backend must outlive the store and every LoadedSet it gave out.
class PredictorStore {
 public:
  // `directory` may be empty: sets are then held in memory only. Sets must fit `model`.
  PredictorStore(std::string directory, Fingerprint model, kernels::Backend* backend, Logger log);

  // Loads every set of the folder; files that are damaged or of another model are logged and skipped. Returns how many there are.
  absl::StatusOr<int> LoadFolder();
  // NOT_FOUND (PREDICTOR_MISSING) names the digest and how many there are.
  absl::StatusOr<std::shared_ptr<const LoadedSet>> Get(const std::string& digest) const;
  bool Has(const std::string& digest) const;
  std::vector<std::shared_ptr<const LoadedSet>> List() const;

  // Takes a fetched set: verifies its digest and its model, writes the file whole or not at all, makes it ready. DATA_LOSS (DIGEST) and
  // nothing kept when the bytes are not `digest`; RESOURCE_EXHAUSTED (DISK_FULL). A folder that cannot be written to otherwise leaves the
  // set in memory. Adding one that is there is fine.
  absl::StatusOr<std::shared_ptr<const LoadedSet>> Add(const std::string& digest, std::string bytes);
  // Means over the loaded sets' measured costs.
  SetCosts Costs() const;
  kernels::Backend* backend() const { return backend_; }

 private:
  absl::StatusOr<std::shared_ptr<const LoadedSet>> Prepare(std::shared_ptr<const PredictorSet> set) const;
  void PrepareCodec(LoadedSet& loaded) const;

  const std::string directory_;
  const Fingerprint model_;
  kernels::Backend* const backend_;
  const Logger log_;
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<const LoadedSet>> sets_ ABSL_GUARDED_BY(mu_);
};

// Seconds to rebuild one token of one group: the median of a few rebuilds of one block with every group of the set.
absl::StatusOr<double> MeasureRebuild(kernels::Backend& backend, kernels::SetHandle handle, const PredictorSet& set);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_PREDICTOR_STORE_H_
