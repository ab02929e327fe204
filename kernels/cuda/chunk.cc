#include "kernels/cuda/chunk.h"

#include <cstring>

#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

std::size_t Aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

void AppendChunks(const std::vector<Tile>& tiles, std::vector<Chunk>* chunks) {
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Tile& tile = tiles[i];
    // Only a chunk of this call's tiles can be continued: the first tile always starts one.
    if (i == 0 || chunks->back().job != tile.job || chunks->back().n_tiles == kChunkTiles) {
      chunks->push_back(Chunk{tile.job, static_cast<int>(i), 0, tile.first_token, 0});
    }
    ++chunks->back().n_tiles;
    chunks->back().n_tokens += tile.n_tokens;
  }
}

StagingLayout LayOut(const GroupShape& group, int kv, int n_tokens) {
  const std::size_t map = Aligned(sizeof(int32_t) * n_tokens);
  const std::size_t layer = sizeof(uint16_t) * 2 * kv * n_tokens;
  StagingLayout layout;
  layout.positions = layout.rows + map;
  layout.anchors = layout.positions + map;
  layout.in_bytes = layout.anchors + group.anchors.size() * layer;
  layout.targets = layout.first_bad + Aligned(sizeof(uint64_t));
  layout.out_bytes = layout.targets + group.targets.size() * layer;
  return layout;
}

void FillInput(const RebuildJob& job, const SetShape& shape, const std::vector<Tile>& tiles, const Chunk& chunk,
               uint8_t* in) {
  const GroupShape& group = shape.groups[job.group];
  const StagingLayout layout = LayOut(group, shape.kv, chunk.n_tokens);
  int32_t* rows = reinterpret_cast<int32_t*>(in + layout.rows);
  for (int i = 0; i < chunk.n_tiles; ++i) {
    const Tile& tile = tiles[chunk.first_tile + i];
    for (int t = tile.first_token; t < tile.first_token + tile.n_tokens; ++t) {
      rows[t - chunk.first_token] = i * kTileTokens + TileRow(job.positions[t]);
    }
  }
  std::memcpy(in + layout.positions, job.positions + chunk.first_token, sizeof(int32_t) * chunk.n_tokens);
  const std::size_t from = static_cast<std::size_t>(chunk.first_token) * shape.kv;
  const std::size_t bytes = sizeof(uint16_t) * shape.kv * chunk.n_tokens;
  uint16_t* to = reinterpret_cast<uint16_t*>(in + layout.anchors);
  for (int a = 0; a < static_cast<int>(group.anchors.size()); ++a) {
    std::memcpy(to + PackedRow(a, kPartKey, 0, chunk.n_tokens, shape.kv), job.anchor_k[a] + from, bytes);
    std::memcpy(to + PackedRow(a, kPartValue, 0, chunk.n_tokens, shape.kv), job.anchor_v[a] + from, bytes);
  }
}

Status DrainOutput(const RebuildJob& job, const SetShape& shape, const Chunk& chunk, const uint8_t* out) {
  const GroupShape& group = shape.groups[job.group];
  const StagingLayout layout = LayOut(group, shape.kv, chunk.n_tokens);
  uint64_t bad;
  std::memcpy(&bad, out + layout.first_bad, sizeof(bad));
  if (bad != kNoneBad) {
    const int token = chunk.first_token + static_cast<int>(bad / group.d_out);
    return NonFiniteError(shape, job.group, static_cast<int>(bad % group.d_out), job.positions[token]);
  }
  const std::size_t at = static_cast<std::size_t>(chunk.first_token) * shape.kv;
  const std::size_t bytes = sizeof(uint16_t) * shape.kv * chunk.n_tokens;
  const uint16_t* from = reinterpret_cast<const uint16_t*>(out + layout.targets);
  for (int t = 0; t < static_cast<int>(group.targets.size()); ++t) {
    std::memcpy(job.target_k[t] + at, from + PackedRow(t, kPartKey, 0, chunk.n_tokens, shape.kv), bytes);
    std::memcpy(job.target_v[t] + at, from + PackedRow(t, kPartValue, 0, chunk.n_tokens, shape.kv), bytes);
  }
  return Status();
}

}  // namespace riskkv::kernels
