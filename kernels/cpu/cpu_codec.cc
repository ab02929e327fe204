#include "kernels/cpu/cpu_codec.h"

#include <cstddef>
#include <new>
#include <string>
#include <utility>

namespace riskkv::kernels {
namespace {

std::vector<float> TransposedSquare(const float* m, int n) {
  std::vector<float> out(static_cast<std::size_t>(n) * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) out[static_cast<std::size_t>(j) * n + i] = m[static_cast<std::size_t>(i) * n + j];
  }
  return out;
}

// Both directions of a rotation are packed: the product wants its matrix as it multiplies.
CpuCodec::Unit PackUnit(GemmKind gemm, const CodecUnit& from, const UnitShape& shape) {
  CpuCodec::Unit unit;
  unit.rotation = PackB(gemm, from.rotation, shape.width, shape.width);
  unit.back = PackB(gemm, TransposedSquare(from.rotation, shape.width).data(), shape.width, shape.width);
  if (shape.from > 0) unit.predictor = PackB(gemm, from.predictor, shape.from, shape.width);
  return unit;
}

Status OutOfCodecMemory(const char* what) {
  return Status(Code::kResourceExhausted, std::string("no memory for ") + what + " on the CPU");
}

}  // namespace

// The codec and a workspace, held for one call.
class CpuCodecBackend::Call {
 public:
  explicit Call(CpuCodecBackend* backend) : backend_(*backend) {}
  ~Call() {
    if (work_ == nullptr) return;
    std::lock_guard<std::mutex> lock(backend_.mutex_);
    backend_.free_.push_back(std::move(work_));  // Take made room
  }

  Status Find(CodecHandle handle) {
    std::lock_guard<std::mutex> lock(backend_.mutex_);
    const auto it = backend_.codecs_.find(handle);
    if (it == backend_.codecs_.end()) return UnknownCodecError(handle);
    codec_ = it->second;
    return Status();
  }

  // After Find. Throws std::bad_alloc.
  void Prepare() {
    Take();
    work_->Reserve(*codec_);
  }

  const CpuCodec& codec() const { return *codec_; }
  const CodecShape& shape() const { return codec_->shape; }
  CodecWorkspace* work() const { return work_.get(); }

 private:
  void Take() {
    std::lock_guard<std::mutex> lock(backend_.mutex_);
    if (backend_.free_.empty()) {
      auto made = std::make_unique<CodecWorkspace>();
      backend_.free_.reserve(++backend_.n_workspaces_);
      work_ = std::move(made);
      return;
    }
    work_ = std::move(backend_.free_.back());
    backend_.free_.pop_back();
  }

  CpuCodecBackend& backend_;
  CodecRef codec_;
  std::unique_ptr<CodecWorkspace> work_;
};

Status CpuCodecBackend::Upload(const CodecView& view, CodecHandle* handle) {
  try {
    CodecShape shape;
    if (Status status = CheckCodec(view, &shape); !status.ok()) return status;
    auto codec = std::make_shared<CpuCodec>(view.rope);
    codec->shape = std::move(shape);
    const std::size_t planes = 2 * static_cast<std::size_t>(view.n_layer);
    codec->mean.assign(view.mean, view.mean + planes * codec->shape.heads.kv);
    codec->scale.assign(view.scale, view.scale + planes);
    for (std::size_t u = 0; u < view.units.size(); ++u)
      codec->units.push_back(PackUnit(gemm_, view.units[u], codec->shape.units[u]));
    std::lock_guard<std::mutex> lock(mutex_);
    codecs_.emplace(next_handle_, std::move(codec));
    *handle = next_handle_++;
    return Status();
  } catch (const std::bad_alloc&) {
    return OutOfCodecMemory("a codec");
  }
}

Status CpuCodecBackend::Release(CodecHandle handle) {
  CodecRef last;  // freed after the lock is gone
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = codecs_.find(handle);
  if (it == codecs_.end()) return UnknownCodecError(handle);
  last = std::move(it->second);
  codecs_.erase(it);
  return Status();
}

Status CpuCodecBackend::Quantise(const CodecBlock& block, const uint16_t* cells, int32_t* const* levels) {
  try {
    Call call(this);
    Status status = call.Find(block.codec);
    if (status.ok()) status = CheckCodecBlock(block, call.shape(), cells, levels);
    if (status.ok()) status = CheckCells(block, call.shape(), cells);
    if (!status.ok()) return status;
    call.Prepare();
    CodecPass pass(call.codec(), block, call.work());
    for (int u = 0; u < block.n_units; ++u) pass.Quantise(u, cells, levels[u]);
    return Status();
  } catch (const std::bad_alloc&) {
    return OutOfCodecMemory("a codec's workspace");
  }
}

Status CpuCodecBackend::Reconstruct(const CodecBlock& block, const int32_t* const* levels, uint16_t* cells) {
  try {
    Call call(this);
    Status status = call.Find(block.codec);
    if (status.ok()) status = CheckCodecBlock(block, call.shape(), cells, levels);
    if (!status.ok()) return status;
    call.Prepare();
    CodecPass pass(call.codec(), block, call.work());
    for (int u = 0; u < block.n_units && status.ok(); ++u) status = pass.Reconstruct(u, levels[u], cells);
    return status;
  } catch (const std::bad_alloc&) {
    return OutOfCodecMemory("a codec's workspace");
  }
}

Status CpuCodecBackend::Multiply(CodecHandle handle, int64_t first, int n_tokens) {
  try {
    Call call(this);
    Status status = call.Find(handle);
    if (status.ok()) status = CheckCodecSpan(first, n_tokens);
    if (!status.ok()) return status;
    call.Prepare();
    CodecBlock block;
    block.first = first;
    block.n_tokens = n_tokens;
    CodecPass pass(call.codec(), block, call.work());
    for (std::size_t u = 0; u < call.shape().units.size(); ++u) pass.Multiply(static_cast<int>(u));
    return Status();
  } catch (const std::bad_alloc&) {
    return OutOfCodecMemory("a codec's workspace");
  }
}

}  // namespace riskkv::kernels
