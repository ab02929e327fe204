#include "kernels/codec_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/fp16.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

std::string Str(long long value) { return std::to_string(value); }

Status Refused(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string PlaneName(CodecPlane plane) {
  return std::string(plane.part == kPartKey ? "keys" : "values") + " of layer " + Str(plane.layer);
}

Status CheckNumbers(const CodecView& view, int kv) {
  if (view.mean == nullptr || view.scale == nullptr) {
    return Refused(std::string("the codec has no ") + (view.mean == nullptr ? "means" : "scales"));
  }
  for (int p = 0; p < 2 * view.n_layer; ++p) {
    const std::string name = PlaneName({p / 2, p % 2});
    if (!std::isfinite(view.scale[p]) || !(view.scale[p] > 0)) {
      return Refused(name + ": the scale is " + std::to_string(view.scale[p]) + ", must be finite and above 0");
    }
    for (int j = 0; j < kv; ++j) {
      const float mean = view.mean[static_cast<std::size_t>(p) * kv + j];
      if (!std::isfinite(mean)) return Refused(name + ": mean [" + Str(j) + "] is " + std::to_string(mean));
    }
  }
  if (!(view.dead_zone >= 0.0f && view.dead_zone < 1.0f)) {
    return Refused("dead_zone is " + std::to_string(view.dead_zone) + ", must be at least 0 and below 1");
  }
  // Beyond 2^23 a level has no fraction left in fp32.
  constexpr int32_t kMost = 1 << 23;
  if (view.largest_level < 1 || view.largest_level > kMost) {
    return Refused("largest_level is " + Str(view.largest_level) + ", must be 1 to " + Str(kMost));
  }
  return Status();
}

Status CheckPlanes(const CodecUnit& unit, const std::string& name, int n_layer, std::vector<char>* seen) {
  if (unit.planes.empty()) return Refused(name + " has no planes");
  for (CodecPlane plane : unit.planes) {
    if (plane.layer < 0 || plane.layer >= n_layer || plane.part < 0 || plane.part > 1) {
      return Refused(name + " has part " + Str(plane.part) + " of layer " + Str(plane.layer) + ", the model has " +
                     Str(n_layer) + " layers of two parts");
    }
    char& used = (*seen)[PlaneIndex(plane)];
    if (used != 0) return Refused(name + " has the " + PlaneName(plane) + ", an earlier unit too");
    used = 1;
  }
  return Status();
}

Status CheckUnit(const CodecView& view, std::size_t u, const CodecShape& shape, UnitShape* out) {
  const CodecUnit& unit = view.units[u];
  const std::string name = "unit " + Str(static_cast<long long>(u));
  long long from = 0;
  for (std::size_t i = 0; i < unit.conditions.size(); ++i) {
    const int c = unit.conditions[i];
    if (c < 0 || c >= static_cast<int>(u) || (i > 0 && c <= unit.conditions[i - 1])) {
      return Refused(name + ": condition " + Str(c) + " is not an earlier unit, ascending");
    }
    from += shape.units[c].width;
  }
  const long long width = static_cast<long long>(shape.heads.kv) * static_cast<long long>(unit.planes.size());
  if (unit.rotation == nullptr) return Refused(name + " has no rotation");
  if (from > 0 && unit.predictor == nullptr) return Refused(name + " has conditions and no predictor");
  const long long rows = std::max(width, from);
  if (rows * width > std::numeric_limits<int>::max()) {
    return Refused(name + " has a " + Str(rows) + " x " + Str(width) + " matrix, more than " +
                   Str(std::numeric_limits<int>::max()) + " elements");
  }
  *out = UnitShape{unit.planes, unit.conditions, static_cast<int>(width), static_cast<int>(from), 0};
  return Status();
}

}  // namespace

int CodecShape::widest() const {
  int width = 0;
  for (const UnitShape& unit : units) width = std::max(width, unit.width);
  return width;
}

int CodecShape::widest_from() const {
  int width = 0;
  for (const UnitShape& unit : units) width = std::max(width, unit.from);
  return width;
}

UnitCoding CodingOf(float step) {
  if (step == 0.0f) return UnitCoding::kExact;
  return std::isfinite(step) ? UnitCoding::kCoded : UnitCoding::kOmitted;
}

Status CheckCodec(const CodecView& view, CodecShape* shape) {
  CodecShape made;
  if (Status s = CheckHeads(view.n_head_kv, view.head_dim, view.rope, &made.heads); !s.ok()) return s;
  const int most_layers = std::numeric_limits<int>::max() / kTileTokens / 2 / made.heads.kv;
  if (view.n_layer < 1 || view.n_layer > most_layers) {
    return Refused("n_layer is " + Str(view.n_layer) + ", must be 1 to " + Str(most_layers));
  }
  if (Status s = CheckNumbers(view, made.heads.kv); !s.ok()) return s;
  made.n_layer = view.n_layer;
  made.rule = {1.0f - view.dead_zone, static_cast<float>(view.largest_level) + 1.0f};
  std::vector<char> seen(2 * static_cast<std::size_t>(view.n_layer), 0);
  int offset = 0;
  for (std::size_t u = 0; u < view.units.size(); ++u) {
    UnitShape unit;
    Status s = CheckPlanes(view.units[u], "unit " + Str(static_cast<long long>(u)), view.n_layer, &seen);
    if (s.ok()) s = CheckUnit(view, u, made, &unit);
    if (!s.ok()) return s;
    unit.offset = offset;
    offset += unit.width;
    made.units.push_back(std::move(unit));
  }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing != seen.end()) {
    const int p = static_cast<int>(missing - seen.begin());
    return Refused("no unit has the " + PlaneName({p / 2, p % 2}));
  }
  *shape = std::move(made);
  return Status();
}

Status CheckCodecSpan(int64_t first, int n_tokens) {
  if (n_tokens < 1 || n_tokens > kTileTokens) {
    return Refused("a block of " + Str(n_tokens) + " tokens, must be 1 to " + Str(kTileTokens));
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kTileTokens;
  if (first >= 0 && first <= kMost) return Status();
  return Refused("a block at position " + Str(first) + ", must be 0 to " + Str(kMost));
}

Status CheckCodecBlock(const CodecBlock& block, const CodecShape& shape, const void* cells,
                       const int32_t* const* levels) {
  if (Status s = CheckCodecSpan(block.first, block.n_tokens); !s.ok()) return s;
  const int n_units = static_cast<int>(shape.units.size());
  if (block.n_units != n_units) {
    return Refused("a block of " + Str(block.n_units) + " units, the codec has " + Str(n_units));
  }
  if (block.steps == nullptr || cells == nullptr || levels == nullptr) {
    const char* what = block.steps == nullptr ? "steps" : cells == nullptr ? "cells" : "levels";
    return Refused(std::string("a block's ") + what + " are null");
  }
  for (int u = 0; u < n_units; ++u) {
    if (!(block.steps[u] >= 0)) return Refused("unit " + Str(u) + ": step " + std::to_string(block.steps[u]));
    if (CodingOf(block.steps[u]) == UnitCoding::kCoded && levels[u] == nullptr) {
      return Refused("unit " + Str(u) + ": its levels are null");
    }
  }
  return Status();
}

Status CheckCells(const CodecBlock& block, const CodecShape& shape, const uint16_t* cells) {
  const std::size_t n = shape.cells(block.n_tokens);
  if (AllFinite(cells, n)) return Status();
  const std::size_t at = static_cast<std::size_t>(std::find_if_not(cells, cells + n, HalfIsFinite) - cells);
  const std::size_t row = at / shape.heads.kv;
  const int plane = static_cast<int>(row / block.n_tokens), element = static_cast<int>(at % shape.heads.kv);
  return Refused("the " + PlaneName({plane / 2, plane % 2}) + " at position " +
                 Str(block.first + static_cast<long long>(row % block.n_tokens)) + " are not finite (head " +
                 Str(element / shape.heads.head_dim) + ", element " + Str(element % shape.heads.head_dim) + ")");
}

Status CellOverflowError(const CodecShape& shape, int u, int column, int64_t position) {
  const int kv = shape.heads.kv, element = column % kv;
  return Status(Code::kOutOfRange, "unit " + Str(u) + ": the decoded " + PlaneName(shape.units[u].planes[column / kv]) +
                                       " at position " + Str(position) + " do not fit fp16 (head " +
                                       Str(element / shape.heads.head_dim) + ", element " +
                                       Str(element % shape.heads.head_dim) + ")");
}

Status UnknownCodecError(CodecHandle handle) {
  return Status(Code::kNotFound, "no codec " + std::to_string(handle));
}

}  // namespace riskkv::kernels
