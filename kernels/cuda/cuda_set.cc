#include "kernels/cuda/cuda_set.h"

#include <cmath>
#include <string>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/fp16.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

// fp32 weights as fp16. What was infinite or NaN stays so and is refused by the Rebuild that meets it.
Status Narrow(const float* from, const GroupShape& shape, std::size_t group, std::vector<uint16_t>* to) {
  to->resize(static_cast<std::size_t>(shape.d_in) * shape.d_out);
  FloatToHalf(from, to->data(), to->size());
  for (std::size_t i = 0; i < to->size(); ++i) {
    if (HalfIsFinite((*to)[i]) || !std::isfinite(from[i])) continue;
    return Status(Code::kInvalidArgument, "group " + std::to_string(group) + ": weight [" +
                                              std::to_string(i / shape.d_out) + ", " + std::to_string(i % shape.d_out) +
                                              "] is " + std::to_string(from[i]) + ", fp16 ends at 65504");
  }
  return Status();
}

Status CopyGroup(const GroupWeights& from, const GroupShape& shape, std::size_t index, CudaGroup* to) {
  const std::size_t n = static_cast<std::size_t>(shape.d_in) * shape.d_out;
  if (from.type == WeightType::kF16) {
    RISKKV_RETURN(CopyToDevice(static_cast<const uint16_t*>(from.b), n, &to->b));
    std::vector<float> bias(shape.d_out);
    HalfToFloat(static_cast<const uint16_t*>(from.bias), bias.data(), bias.size());
    return CopyToDevice(bias.data(), bias.size(), &to->bias);
  }
  std::vector<uint16_t> narrow;
  RISKKV_RETURN(Narrow(static_cast<const float*>(from.b), shape, index, &narrow));
  RISKKV_RETURN(CopyToDevice(narrow.data(), n, &to->b));
  return CopyToDevice(static_cast<const float*>(from.bias), shape.d_out, &to->bias);
}

}  // namespace

Status CopyFrequencies(const RopeParams& rope, const HeadShape& heads, DeviceBuffer* to) {
  if (heads.rotary_dim > kMaxCudaRotaryDim) {
    return Status(Code::kInvalidArgument, "rotary_dim is " + std::to_string(heads.rotary_dim) +
                                              ", the CUDA backend takes at most " + std::to_string(kMaxCudaRotaryDim));
  }
  if (heads.half() == 0) return Status();
  std::vector<double> frequency;
  for (int i = 0; i < heads.half(); ++i) frequency.push_back(RopeFrequency(rope, i));
  return CopyToDevice(frequency.data(), frequency.size(), to);
}

Status MakeCudaSet(const PredictorSetView& view, CudaSetRef* set) {
  auto made = std::make_shared<CudaSet>();
  RISKKV_RETURN(CheckSet(view, &made->shape));
  RISKKV_RETURN(CopyFrequencies(view.rope, made->shape, &made->frequency));
  made->groups.resize(view.groups.size());
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    RISKKV_RETURN(CopyGroup(view.groups[g], made->shape.groups[g], g, &made->groups[g]));
  }
  *set = std::move(made);
  return Status();
}

}  // namespace riskkv::kernels
