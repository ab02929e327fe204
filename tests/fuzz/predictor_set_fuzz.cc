// A predictor set comes from a disk or a peer: any bytes must give an error or a set whose views are in bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/predictor/predictor_set.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto set = riskkv::PredictorSet::FromBytes(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!set.ok()) return 0;
  // Touch what the views promise, so that the address sanitizer sees a bound that lies.
  uint64_t sum = 0;
  int64_t kv = (*set)->layout().kv();
  const riskkv::kernels::PredictorSetView view = (*set)->View();
  const int64_t width = view.groups.empty() || view.groups[0].type == riskkv::kernels::WeightType::kF32 ? 4 : 2;
  for (const auto& group : view.groups) {
    const int64_t d_in = 2 * kv * static_cast<int64_t>(group.anchors.size());
    const int64_t d_out = 2 * kv * static_cast<int64_t>(group.targets.size());
    const auto* b = static_cast<const unsigned char*>(group.b);
    const auto* bias = static_cast<const unsigned char*>(group.bias);
    for (int64_t i = 0; i < d_in * d_out * width; ++i) sum += b[i];
    for (int64_t i = 0; i < d_out * width; ++i) sum += bias[i];
  }
  (void)(*set)->BestGatedProfile();
  return sum == 1 ? 1 : 0;
}
