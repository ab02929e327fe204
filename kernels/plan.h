// What every backend does before it computes: check a set and its jobs, and cut jobs into tiles. Host only.
#ifndef RISKKV_KERNELS_PLAN_H_
#define RISKKV_KERNELS_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace riskkv::kernels {

struct GroupShape {
  std::vector<int> anchors;
  std::vector<int> targets;
  int d_in = 0;
  int d_out = 0;
};

// How a row of keys or values is made up.
struct HeadShape {
  int n_head_kv = 0;
  int head_dim = 0;
  int kv = 0;
  RopePairing pairing = RopePairing::kNone;
  int rotary_dim = 0;  // 0 when pairing is kNone
  int half() const { return rotary_dim / 2; }
};

// The facts of an uploaded set that outlive the view.
struct SetShape : HeadShape {
  std::vector<GroupShape> groups;
};

// kInvalidArgument names the field and its value. Fills *shape when ok.
Status CheckHeads(int n_head_kv, int head_dim, const RopeParams& rope, HeadShape* shape);

// kInvalidArgument names the field or the group, and the values that disagree. Fills *shape when ok.
Status CheckSet(const PredictorSetView& view, SetShape* shape);

// `index` is the job's place in the batch, for the message. A job of no tokens is fine and does nothing.
Status CheckJob(const RebuildJob& job, const SetShape& shape, std::size_t index);

// A run of one job's tokens that lie in one tile: rows TileRow(position) of the tile that starts at `start`.
struct Tile {
  std::size_t job = 0;
  int first_token = 0;
  int n_tokens = 0;
  int32_t start = 0;
};

// Appends the tiles of a checked job.
void AppendTiles(const RebuildJob& job, std::size_t index, std::vector<Tile>* tiles);

// kInternal for a result that fp16 cannot hold: `column` is its column in Z.
Status NonFiniteError(const SetShape& shape, int group, int column, int32_t position);

Status UnknownSetError(SetHandle handle);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_PLAN_H_
