// The coded transforms on the CPU, on the calling thread.
#ifndef RISKKV_KERNELS_CPU_CPU_CODEC_H_
#define RISKKV_KERNELS_CPU_CPU_CODEC_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/codec_backend.h"
#include "kernels/cpu/codec_pass.h"
#include "kernels/cpu/gemm.h"

namespace riskkv::kernels {

// A workspace for each call that runs at the same time, kept for the next.
class CpuCodecBackend final : public CodecBackend {
 public:
  // `gemm` is one of AvailableGemms().
  explicit CpuCodecBackend(GemmKind gemm) : gemm_(gemm) {}

  Status Upload(const CodecView& view, CodecHandle* handle) override;
  Status Release(CodecHandle handle) override;
  Status Quantise(const CodecBlock& block, const uint16_t* cells, int32_t* const* levels) override;
  Status Reconstruct(const CodecBlock& block, const int32_t* const* levels, uint16_t* cells) override;
  Status Multiply(CodecHandle handle, int64_t first, int n_tokens) override;

 private:
  using CodecRef = std::shared_ptr<const CpuCodec>;
  class Call;

  const GemmKind gemm_;
  std::mutex mutex_;
  CodecHandle next_handle_ = 1;               // guarded by mutex_, as what follows
  std::map<CodecHandle, CodecRef> codecs_;
  std::vector<std::unique_ptr<CodecWorkspace>> free_;  // room for all of them
  std::size_t n_workspaces_ = 0;                       // free or not
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_CPU_CODEC_H_
