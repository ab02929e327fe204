// The codec's kernels as loops over codec_args.h.
#include <cmath>
#include <vector>

#include "kernels/cuda/codec_launch.cuh"
#include "kernels/fp16.h"
#include "kernels/tests/fake_cuda/fake_cuda.h"

namespace riskkv::kernels {
namespace {

struct TrigRow {
  TrigRow(const Rotary& rope, int32_t position) {
    for (int i = 0; i < rope.rotary_dim / 2; ++i) {
      const float angle = static_cast<float>(RopeAngle(position, rope.frequency[i]));
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
  std::vector<float> cosine, sine;
};

cudaError_t Launch(cudaStream_t stream, std::function<void()> work) {
  return test::FakeLaunch(stream, std::move(work)) ? cudaSuccess : cudaErrorLaunchFailure;
}

}  // namespace

cudaError_t LaunchCentre(const CentreArgs& args, cudaStream_t stream) {
  return Launch(stream, [args] {
    for (int token = 0; token < args.unit.n_tokens; ++token) {
      const TrigRow trig(args.unit.rope, args.unit.position(token));
      float* x = args.x + args.unit.row(token);
      for (int c = 0; c < args.unit.width(); ++c)
        x[c] = CentreElementAt(args, token, c, trig.cosine.data(), trig.sine.data());
    }
  });
}

cudaError_t LaunchQuantise(const LevelArgs& args, cudaStream_t stream) {
  return Launch(stream, [args] {
    for (int token = 0; token < args.n_tokens; ++token) {
      for (int c = 0; c < args.width; ++c) QuantiseElementAt(args, token, c);
    }
  });
}

cudaError_t LaunchDequantise(const LevelArgs& args, cudaStream_t stream) {
  return Launch(stream, [args] {
    for (int token = 0; token < args.n_tokens; ++token) {
      for (int c = 0; c < args.width; ++c) DequantiseElementAt(args, token, c);
    }
  });
}

cudaError_t LaunchRestore(const RestoreArgs& args, cudaStream_t stream) {
  return Launch(stream, [args] {
    for (int token = 0; token < args.unit.n_tokens; ++token) {
      const TrigRow trig(args.unit.rope, args.unit.position(token));
      for (int c = 0; c < args.unit.width(); ++c) {
        const uint16_t value = RestoreElementAt(args, token, c, trig.cosine.data(), trig.sine.data());
        args.cells[args.unit.cell(token, c)] = value;
        const unsigned long long at = BadCell(args.index, token, c);
        if (!HalfIsFinite(value) && at < *args.first_bad) *args.first_bad = at;
      }
    }
  });
}

}  // namespace riskkv::kernels
