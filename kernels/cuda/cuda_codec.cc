#include "kernels/cuda/cuda_codec.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_set.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

Status CopyCodecUnit(const CodecUnit& from, const UnitShape& shape, CudaCodecUnit* to) {
  const std::size_t width = shape.width;
  RISKKV_RETURN(CopyToDevice(from.rotation, width * width, &to->rotation));
  if (shape.from > 0) RISKKV_RETURN(CopyToDevice(from.predictor, shape.from * width, &to->predictor));
  std::vector<int32_t> planes;
  for (CodecPlane plane : from.planes) {
    planes.push_back(static_cast<int32_t>(PlaneIndex(plane)));
    to->has_keys = to->has_keys || plane.part == kPartKey;
  }
  return CopyToDevice(planes.data(), planes.size(), &to->planes);
}

}  // namespace

Status MakeCudaCodec(const CodecView& view, CudaCodecRef* codec) {
  auto made = std::make_shared<CudaCodec>();
  RISKKV_RETURN(CheckCodec(view, &made->shape));
  RISKKV_RETURN(CopyFrequencies(view.rope, made->shape.heads, &made->frequency));
  const std::size_t planes = 2 * static_cast<std::size_t>(view.n_layer);
  RISKKV_RETURN(CopyToDevice(view.mean, planes * made->shape.heads.kv, &made->mean));
  RISKKV_RETURN(CopyToDevice(view.scale, planes, &made->scale));
  made->units.resize(view.units.size());
  for (std::size_t u = 0; u < view.units.size(); ++u)
    RISKKV_RETURN(CopyCodecUnit(view.units[u], made->shape.units[u], &made->units[u]));
  *codec = std::move(made);
  return Status();
}

}  // namespace riskkv::kernels
