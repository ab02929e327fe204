// How jobs become device work, without a CUDA header: tested on the CPU. A chunk is a run of one job's tiles that
// travels together: one copy in, one gather, one product a tile, one finish, one copy out.
#ifndef RISKKV_KERNELS_CUDA_CHUNK_H_
#define RISKKV_KERNELS_CUDA_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/plan.h"

namespace riskkv::kernels {

// Enough rows to hide the launches, few enough that three chunks in flight cost little memory.
inline constexpr int kChunkTiles = 8;
inline constexpr int kChunkTokens = kChunkTiles * kTileTokens;

struct Chunk {
  std::size_t job = 0;
  int first_tile = 0;  // in the tiles it was cut from
  int n_tiles = 0;
  int first_token = 0;
  int n_tokens = 0;
};

// Appends the chunks of all tiles; tiles of different jobs never share one.
void AppendChunks(const std::vector<Tile>& tiles, std::vector<Chunk>* chunks);

// Byte offsets inside a slot's two staging buffers. Parts start at multiples of 256, as cudaMalloc's blocks do.
struct StagingLayout {
  std::size_t rows = 0;       // in: int32 [n_tokens], the token's row of X and Z: tile * kTileTokens + TileRow
  std::size_t positions = 0;  // in: int32 [n_tokens]
  std::size_t anchors = 0;    // in: fp16 [anchor][K|V][n_tokens][kv]
  std::size_t in_bytes = 0;
  std::size_t first_bad = 0;  // out: uint64, token * d_out + column of the first non-finite result, or kNoneBad
  std::size_t targets = 0;    // out: fp16 [target][K|V][n_tokens][kv]
  std::size_t out_bytes = 0;
};

inline constexpr uint64_t kNoneBad = ~uint64_t{0};

StagingLayout LayOut(const GroupShape& group, int kv, int n_tokens);

// Host side of a chunk: the job's rows into the buffer that is copied to the device, and back out of the other.
void FillInput(const RebuildJob& job, const SetShape& shape, const std::vector<Tile>& tiles, const Chunk& chunk,
               uint8_t* in);
Status DrainOutput(const RebuildJob& job, const SetShape& shape, const Chunk& chunk, const uint8_t* out);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CHUNK_H_
