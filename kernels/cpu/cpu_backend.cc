#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/cpu_codec.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/worker_pool.h"
#include "kernels/fp16.h"
#include "kernels/plan.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

struct CpuGroup {
  PackedB b;           // [d_in, d_out]
  AlignedBuffer bias;  // [d_out]
};

struct CpuSet {
  explicit CpuSet(const RopeParams& params) : rope(params) {}
  SetShape shape;
  RopeTable rope;
  std::vector<CpuGroup> groups;
};

using SetRef = std::shared_ptr<const CpuSet>;

// fp16 weights are widened once, here: the product has fp32 inputs.
void CopyWeights(const void* from, WeightType type, std::size_t n, AlignedBuffer* to) {
  to->Reserve(n);
  if (type == WeightType::kF16) {
    HalfToFloat(static_cast<const uint16_t*>(from), to->data(), n);
  } else {
    std::memcpy(to->data(), from, n * sizeof(float));
  }
}

// What one worker needs for one tile.
struct Workspace {
  AlignedBuffer x;                 // [kTileTokens, XStride(d_in)]
  AlignedBuffer z;                 // [kTileTokens, d_out]
  AlignedBuffer trig;              // [kTileTokens][cos|sin][half]
  std::vector<double> trig_start;  // [cos|sin][half]

  void Reserve(const CpuSet& set, const GroupShape& group) {
    const std::size_t rows = kTileTokens, half = set.rope.half();
    x.Reserve(rows * XStride(group.d_in));
    z.Reserve(rows * group.d_out);
    trig.Reserve(rows * 2 * half);
    if (trig_start.size() < 2 * half) trig_start.resize(2 * half);
  }
};

// One tile of one job: gather and inverse RoPE, product, bias, RoPE, fp16. A token's bytes depend on its position and
// its anchors alone: its row of the product is TileRow(position) whatever else is in the tile.
class TileTask {
 public:
  TileTask(const CpuSet& set, const RebuildJob& job, const Tile& tile, Workspace* work)
      : set_(set), shape_(set.shape), group_(shape_.groups[job.group]), job_(job), tile_(tile), work_(*work) {}

  Status Run() {
    FillTrig();
    Gather();
    const CpuGroup& weights = set_.groups[job_.group];
    GemmTile(weights.b, work_.x.data(), rows_, work_.z.data());
    for (int i = 0; i < tile_.n_tokens; ++i) {
      const int token = tile_.first_token + i;
      float* z = work_.z.data() + static_cast<std::size_t>(RowOf(token)) * group_.d_out;
      AddBias(weights.bias.data(), z, group_.d_out);
      if (Status status = Scatter(token, z); !status.ok()) return status;
    }
    return Status();
  }

 private:
  int RowOf(int token) const { return TileRow(job_.positions[token]); }
  float* Cosine(int row) const { return work_.trig.data() + static_cast<std::size_t>(row) * 2 * set_.rope.half(); }
  float* Sine(int row) const { return Cosine(row) + set_.rope.half(); }

  void FillTrig() const {
    if (set_.rope.half() == 0) return;
    set_.rope.Start(tile_.start, work_.trig_start.data());
    for (int i = 0; i < tile_.n_tokens; ++i) {
      const int row = RowOf(tile_.first_token + i);
      set_.rope.Row(work_.trig_start.data(), row, Cosine(row), Sine(row));
    }
  }

  void Gather() {
    float* x = work_.x.data();
    const std::size_t stride = XStride(group_.d_in);
    // Rows without a token are multiplied along with their neighbours: leftovers could be NaN or slow subnormals.
    if (tile_.n_tokens < kTileTokens) std::fill_n(x, kTileTokens * stride, 0.0f);
    const int kv = shape_.kv;
    for (int i = 0; i < tile_.n_tokens; ++i) {
      const int token = tile_.first_token + i, row = RowOf(token);
      rows_.set(row);
      float* out = x + row * stride;
      const std::size_t from = static_cast<std::size_t>(token) * kv;
      for (int a = 0; a < static_cast<int>(group_.anchors.size()); ++a) {
        float* key = out + FeatureColumn(a, kPartKey, kv);
        HalfToFloat(job_.anchor_k[a] + from, key, kv);
        RotateRow(shape_, Turn::kInverse, Cosine(row), Sine(row), key);
        HalfToFloat(job_.anchor_v[a] + from, out + FeatureColumn(a, kPartValue, kv), kv);
      }
    }
  }

  // z is the token's row of Z with the bias in it; its keys are turned in place.
  Status Scatter(int token, float* z) const {
    const int row = RowOf(token), kv = shape_.kv;
    const std::size_t to = static_cast<std::size_t>(token) * kv;
    for (int t = 0; t < static_cast<int>(group_.targets.size()); ++t) {
      const int key_column = FeatureColumn(t, kPartKey, kv), value_column = FeatureColumn(t, kPartValue, kv);
      RotateRow(shape_, Turn::kForward, Cosine(row), Sine(row), z + key_column);
      Status status = Store(z, key_column, token, job_.target_k[t] + to);
      if (status.ok()) status = Store(z, value_column, token, job_.target_v[t] + to);
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status Store(const float* z, int column, int token, uint16_t* out) const {
    FloatToHalf(z + column, out, shape_.kv);
    if (AllFinite(out, shape_.kv)) return Status();
    const uint16_t* bad = std::find_if_not(out, out + shape_.kv, HalfIsFinite);
    return NonFiniteError(shape_, job_.group, column + static_cast<int>(bad - out), job_.positions[token]);
  }

  const CpuSet& set_;
  const SetShape& shape_;
  const GroupShape& group_;
  const RebuildJob& job_;
  const Tile& tile_;
  Workspace& work_;
  TileRows rows_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, GemmKind gemm, std::string note)
      : gemm_(gemm), codec_(gemm), pool_(threads), work_(threads) {
    info_.backend = "cpu";
    info_.device = CpuName();
    info_.memory_bytes = CpuMemoryBytes();
    info_.note = std::move(note) + "; " + GemmName(gemm) + ", fp16 by " + Fp16Path() + ", " + std::to_string(threads) +
                 (threads == 1 ? " thread" : " threads");
  }

  const DeviceInfo& info() const override { return info_; }

  Status Upload(const PredictorSetView& view, SetHandle* handle) override;
  Status Release(SetHandle handle) override;
  Status Rebuild(const std::vector<RebuildJob>& jobs) override;
  CodecBackend& codec() override { return codec_; }

 private:
  Status Prepare(const std::vector<RebuildJob>& jobs);
  void RunTile(int worker, std::size_t index);

  const GemmKind gemm_;
  DeviceInfo info_;
  CpuCodecBackend codec_;

  std::mutex sets_mutex_;
  SetHandle next_handle_ = 1;          // guarded by sets_mutex_
  std::map<SetHandle, SetRef> sets_;  // guarded by sets_mutex_

  // One Rebuild at a time: the thread bound is the backend's, not the caller's. Guards everything below.
  std::mutex run_mutex_;
  WorkerPool pool_;
  std::vector<Workspace> work_;  // one a worker
  std::vector<SetRef> job_sets_;
  std::vector<Tile> tiles_;
  const std::vector<RebuildJob>* jobs_ = nullptr;
  std::mutex failure_mutex_;
  std::size_t failed_tile_ = 0;  // these two guarded by failure_mutex_
  Status failure_;
};

Status CpuBackend::Upload(const PredictorSetView& view, SetHandle* handle) {
  try {
    SetShape shape;
    if (Status status = CheckSet(view, &shape); !status.ok()) return status;
    auto set = std::make_shared<CpuSet>(view.rope);
    set->shape = std::move(shape);
    set->groups.resize(view.groups.size());
    AlignedBuffer wide;
    for (std::size_t g = 0; g < view.groups.size(); ++g) {
      const GroupWeights& from = view.groups[g];
      const GroupShape& dims = set->shape.groups[g];
      CopyWeights(from.b, from.type, static_cast<std::size_t>(dims.d_in) * dims.d_out, &wide);
      set->groups[g].b = PackB(gemm_, wide.data(), dims.d_in, dims.d_out);
      CopyWeights(from.bias, from.type, dims.d_out, &set->groups[g].bias);
    }
    std::lock_guard<std::mutex> lock(sets_mutex_);
    *handle = next_handle_++;
    sets_.emplace(*handle, std::move(set));
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "no memory for a predictor set of " + std::to_string(view.groups.size()) +
                                                " groups on the CPU");
  }
}

Status CpuBackend::Release(SetHandle handle) {
  SetRef last;  // freed after the lock is gone
  std::lock_guard<std::mutex> lock(sets_mutex_);
  const auto it = sets_.find(handle);
  if (it == sets_.end()) return UnknownSetError(handle);
  last = std::move(it->second);
  sets_.erase(it);
  return Status();
}

// Checks every job before the first row is written, and holds every set until the end.
Status CpuBackend::Prepare(const std::vector<RebuildJob>& jobs) {
  job_sets_.clear();
  tiles_.clear();
  {
    std::lock_guard<std::mutex> lock(sets_mutex_);
    for (const RebuildJob& job : jobs) {
      const auto it = sets_.find(job.set);
      if (it == sets_.end()) return UnknownSetError(job.set);
      job_sets_.push_back(it->second);
    }
  }
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const CpuSet& set = *job_sets_[j];
    if (Status status = CheckJob(jobs[j], set.shape, j); !status.ok()) return status;
    for (Workspace& work : work_) work.Reserve(set, set.shape.groups[jobs[j].group]);
    AppendTiles(jobs[j], j, &tiles_);
  }
  return Status();
}

void CpuBackend::RunTile(int worker, std::size_t index) {
  const Tile& tile = tiles_[index];
  Status status = TileTask(*job_sets_[tile.job], (*jobs_)[tile.job], tile, &work_[worker]).Run();
  if (status.ok()) return;
  // The first tile's error wins, so that the message does not depend on the threads.
  std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.ok() && failed_tile_ < index) return;
  failure_ = std::move(status);
  failed_tile_ = index;
}

Status CpuBackend::Rebuild(const std::vector<RebuildJob>& jobs) {
  std::lock_guard<std::mutex> lock(run_mutex_);
  try {
    Status status = Prepare(jobs);
    if (status.ok()) {
      jobs_ = &jobs;
      failure_ = Status();
      pool_.Run(tiles_.size(), [](void* self, int worker, std::size_t i) {
        static_cast<CpuBackend*>(self)->RunTile(worker, i);
      }, this);
      status = std::move(failure_);
    }
    job_sets_.clear();
    return status;
  } catch (const std::bad_alloc&) {
    job_sets_.clear();
    return Status(Code::kResourceExhausted, "no memory for the workspaces of " + std::to_string(jobs.size()) + " jobs");
  }
}

}  // namespace

Status CreateCpuBackend(int threads, GemmKind gemm, std::string note, std::unique_ptr<Backend>* backend) {
  if (threads < 1) {
    return Status(Code::kInvalidArgument, "cpu_threads is " + std::to_string(threads) + ", must be at least 1");
  }
  try {
    *backend = std::make_unique<CpuBackend>(threads, gemm, std::move(note));
    return Status();
  } catch (const std::exception& error) {
    return Status(Code::kResourceExhausted, "the CPU backend could not start " + std::to_string(threads) +
                                                " threads: " + error.what());
  }
}

}  // namespace riskkv::kernels
