// How fast a backend transforms coded caches.
#ifndef RISKKV_KERNELS_BENCH_CODEC_BENCH_H_
#define RISKKV_KERNELS_BENCH_CODEC_BENCH_H_

#include "kernels/backend.h"
#include "kernels/bench/bench_tools.h"

namespace riskkv::kernels::bench {

// One JSON object: both directions of six layers (two anchor pairs and the target pair between them) over `tokens`, in
// blocks of kTileTokens, one after the other, and their products alone.
Status PrintCodec(Backend& backend, const Model& model, int tokens, double seconds, bool last);

}  // namespace riskkv::kernels::bench

#endif  // RISKKV_KERNELS_BENCH_CODEC_BENCH_H_
