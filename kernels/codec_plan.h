// What every backend does before it transforms: check a codec, a block and its cells. Host only.
#ifndef RISKKV_KERNELS_CODEC_PLAN_H_
#define RISKKV_KERNELS_CODEC_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/codec_backend.h"
#include "kernels/codec_elements.h"
#include "kernels/plan.h"

namespace riskkv::kernels {

struct UnitShape {
  std::vector<CodecPlane> planes;
  std::vector<int> conditions;
  int width = 0;
  int from = 0;    // width of all conditions
  int offset = 0;  // width of all units before
};

// The facts of an uploaded codec that outlive the view.
struct CodecShape {
  HeadShape heads;
  int n_layer = 0;
  LevelRule rule{};
  std::vector<UnitShape> units;

  int columns() const { return 2 * n_layer * heads.kv; }  // of all planes, and of all units
  int widest() const;                                     // columns of the widest unit
  int widest_from() const;                                // and of the widest conditions
  std::size_t cells(int n_tokens) const { return static_cast<std::size_t>(columns()) * n_tokens; }
};

// First element of a token's row in cells.
inline std::size_t CellRow(CodecPlane plane, int token, int n_tokens, int kv) {
  return PackedRow(plane.layer, plane.part, token, n_tokens, kv);
}
// A plane's place in means (times kv) and scales.
inline std::size_t PlaneIndex(CodecPlane plane) { return 2 * static_cast<std::size_t>(plane.layer) + plane.part; }

enum class UnitCoding { kExact, kCoded, kOmitted };
UnitCoding CodingOf(float step);

// kInvalidArgument names the field, the unit or the plane, and the values that disagree. Fills *shape when ok.
Status CheckCodec(const CodecView& view, CodecShape* shape);

// kInvalidArgument unless tokens [first, first + n_tokens) can be a block.
Status CheckCodecSpan(int64_t first, int n_tokens);

// kInvalidArgument unless the block is one of the codec: its span, units, steps, and pointers to what is used.
Status CheckCodecBlock(const CodecBlock& block, const CodecShape& shape, const void* cells,
                       const int32_t* const* levels);

// kInvalidArgument naming the first cell that is not finite.
Status CheckCells(const CodecBlock& block, const CodecShape& shape, const uint16_t* cells);

// kOutOfRange for a cell that fp16 cannot hold: `column` of unit u.
Status CellOverflowError(const CodecShape& shape, int u, int column, int64_t position);

Status UnknownCodecError(CodecHandle handle);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CODEC_PLAN_H_
