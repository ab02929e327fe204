#include "services/worker/core/move_manifest.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/codec/coded_block.h"
#include "common/codec/int8_rows.h"
#include "common/kv/layout.h"
#include "fmt/format.h"
#include "services/worker/core/move_provenance.h"

namespace riskkv::worker {
namespace {

absl::Status Mismatch(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MANIFEST_MISMATCH", message);
}
absl::Status BadRange(std::string message) { return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE", message); }

bool Lossy(MoveMode mode) { return mode == MoveMode::kRisk || mode == MoveMode::kCoded; }

absl::Status CheckHead(const AttemptTerms& t, const RoundManifest& m) {
  RETURN_IF_ERROR(CheckCompatible(m.fingerprint, *t.fingerprint));
  if (m.mode != t.mode && !(Lossy(t.mode) && m.mode == MoveMode::kFull)) {
    return Mismatch(fmt::format("round in mode {}, reserved for {}", MoveModeName(m.mode), MoveModeName(t.mode)));
  }
  if (Lossy(m.mode) && (m.predictor_set != t.predictor_set || m.profile != t.profile)) {
    return Mismatch(fmt::format("round for set {} profile {}, reserved for set {} profile {}", m.predictor_set, m.profile,
                                t.predictor_set, t.profile));
  }
  if (t.final_declared) return Mismatch(fmt::format("round {} after the final one", m.round));
  if (m.round != t.round + 1) return Mismatch(fmt::format("round {} after round {}", m.round, t.round));
  if (m.frontier < t.frontier) {
    return Mismatch(fmt::format("the frontier went back from {} to {}", t.frontier, m.frontier));
  }
  if (m.frontier > t.cells_reserved) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                     fmt::format("frontier {}, but {} cells are reserved", m.frontier, t.cells_reserved));
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const AttemptTerms& t, const RoundManifest& m) {
  const int64_t want = m.mode == MoveMode::kReplay ? m.frontier - t.frontier : 0;
  if (static_cast<int64_t>(m.tokens.size()) != want) {
    return Mismatch(fmt::format("{} tokens in a {} round from {} to {}", m.tokens.size(), MoveModeName(m.mode), t.frontier, m.frontier));
  }
  for (Token token : m.tokens) {
    if (token < 0 || token >= t.n_vocab) return BadRange(fmt::format("token {} outside a vocabulary of {}", token, t.n_vocab));
  }
  return absl::OkStatus();
}

// What the declared bytes must be. Coded blocks are as long as they turn out, but never longer than the cells themselves.
absl::Status CheckSize(const AttemptTerms& t, const RoundManifest& m, const ManifestLimits& limits, const Segment& s) {
  const KvLayout& layout = t.fingerprint->layout;
  const int64_t canonical = s.tokens() * static_cast<int64_t>(s.layers.size()) * layout.bytes_per_token_layer();
  const bool cells_here = s.kind == SegmentKind::kCells && !s.rebuild && m.mode == MoveMode::kCoded && t.coded != nullptr;
  int64_t least = canonical, most = canonical;
  if (s.encoding == CellEncoding::kCoded && cells_here && s.range.size() <= kCodedBlockTokens) {
    least = 1;
  } else if (s.encoding == CellEncoding::kInt8 && cells_here) {
    least = most = Int8Bytes(layout, s.tokens());
  } else if (s.encoding != CellEncoding::kCanonical) {
    return Mismatch(fmt::format("segment {}: encoding {} of {} tokens in a {} round", s.id, static_cast<int>(s.encoding), s.tokens(),
                                MoveModeName(m.mode)));
  }
  if (s.bytes >= least && s.bytes <= most && most <= limits.max_segment_bytes) return absl::OkStatus();
  return Mismatch(fmt::format("segment {}: {} bytes declared, {} tokens of {} layers are {} to {} (at most {})", s.id, s.bytes, s.tokens(),
                              s.layers.size(), least, most, limits.max_segment_bytes));
}

// Counts as given, before anything is computed from them.
absl::Status CheckShape(const AttemptTerms& t, const ManifestLimits& limits, const RoundManifest& m, const Segment& s) {
  if (absl::Status layers = CheckLayers(t.fingerprint->layout, s.layers); !layers.ok() || s.layers.empty()) {
    return BadRange(fmt::format("segment {}: bad layers ({} of them)", s.id, s.layers.size()));
  }
  if (s.sha256.size() != 64) return BadRange(fmt::format("segment {}: digest of {} characters", s.id, s.sha256.size()));
  if (s.kind == SegmentKind::kCells) {
    if (s.range.begin < 0 || s.range.empty() || s.range.end > m.frontier || s.range.size() > limits.max_segment_tokens || !s.positions.empty()) {
      return BadRange(fmt::format("segment {}: cells [{}, {}) below {}, at most {}", s.id, s.range.begin, s.range.end, m.frontier,
                                  limits.max_segment_tokens));
    }
  } else if (s.positions.empty() || s.positions.size() > limits.max_probe_tokens || s.rebuild) {
    return BadRange(fmt::format("segment {}: a probe of {} tokens, 1 to {}", s.id, s.positions.size(), limits.max_probe_tokens));
  }
  return CheckSize(t, m, limits, s);
}

absl::Status CheckCells(const AttemptTerms& t, const RoundManifest& m, const Segment& s, int64_t at) {
  if (s.range.begin != at) {
    return Mismatch(fmt::format("segment {} begins at {}, the cells before it end at {}", s.id, s.range.begin, at));
  }
  const KvLayout& layout = t.fingerprint->layout;
  if (!s.rebuild) {
    if (s.layers.size() == static_cast<std::size_t>(layout.n_layer)) return absl::OkStatus();
    return Mismatch(fmt::format("segment {} has {} of {} layers and is not to be rebuilt", s.id, s.layers.size(), layout.n_layer));
  }
  if (m.mode != MoveMode::kRisk || t.rules == nullptr) return Mismatch(fmt::format("segment {} is to be rebuilt in mode {}", s.id, MoveModeName(m.mode)));
  if (s.layers != LayersExcept(layout, t.rules->omitted_layers)) {
    return Mismatch(fmt::format("segment {} has {} layers, profile {} ships {}", s.id, s.layers.size(), t.rules->name,
                                layout.n_layer - static_cast<int>(t.rules->omitted_layers.size())));
  }
  return absl::OkStatus();
}

// The probe must lie within the block before it. In RISK it covers every omitted layer, on tokens computed natively.
absl::Status CheckProbeSegment(const AttemptTerms& t, const Segment& s, const Segment* block, const TokenRanges& rebuilt) {
  const bool coded = block != nullptr && block->encoding == CellEncoding::kCoded;
  if (!coded && (block == nullptr || !block->rebuild || t.rules == nullptr || s.layers != t.rules->omitted_layers)) {
    return Mismatch(fmt::format("probe segment {} follows neither a coded block nor one to rebuild with its omitted layers", s.id));
  }
  int64_t last = block->range.begin - 1;
  for (int64_t p : s.positions) {
    if (p <= last || p >= block->range.end || (!coded && rebuilt.Contains(p))) {
      return BadRange(fmt::format("probe segment {}: position {} is not ascending, not within [{}, {}) or not native", s.id, p,
                                  block->range.begin, block->range.end));
    }
    last = p;
  }
  return absl::OkStatus();
}

bool NeedsProbe(const Segment& block, const TokenRanges& rebuilt) {
  return block.encoding == CellEncoding::kCoded || (block.rebuild && !rebuilt.Contains(block.range));
}

absl::Status CheckSegments(const AttemptTerms& t, const ManifestLimits& limits, const RoundManifest& m) {
  if (m.segments.size() > limits.max_segments) return BadRange(fmt::format("{} segments, at most {}", m.segments.size(), limits.max_segments));
  RETURN_IF_ERROR(CheckProvenance(m.provenance, m.frontier));
  if (Lossy(m.mode)) RETURN_IF_ERROR(CheckSameProvenance(m.provenance, m.predictor_set, m.profile));
  const TokenRanges rebuilt = RebuiltRanges(m.provenance);
  int64_t at = t.frontier, bytes = 0;
  uint32_t last_id = t.last_segment;
  const Segment* block = nullptr;  // the last cells, while they may still get their probe
  bool owed = false;
  for (const Segment& s : m.segments) {
    if (s.id <= last_id) return Mismatch(fmt::format("segment id {} after {}", s.id, last_id));
    last_id = s.id;
    RETURN_IF_ERROR(CheckShape(t, limits, m, s));
    bytes += s.bytes;
    if (bytes > limits.max_round_bytes) return BadRange(fmt::format("a round of more than {} bytes", limits.max_round_bytes));
    if (s.kind == SegmentKind::kProbe) {
      RETURN_IF_ERROR(CheckProbeSegment(t, s, block, rebuilt));
      owed = false;
      block = nullptr;
      continue;
    }
    if (owed) break;
    RETURN_IF_ERROR(CheckCells(t, m, s, at));
    at = s.range.end;
    block = &s;
    owed = NeedsProbe(s, rebuilt);
  }
  if (owed) return Mismatch(fmt::format("the block up to {} is to be rebuilt or coded and has no probe", at));
  if (at != m.frontier && m.mode != MoveMode::kReplay) {
    return Mismatch(fmt::format("segments end at {}, the frontier is {}", at, m.frontier));
  }
  if (m.mode == MoveMode::kReplay && !m.segments.empty()) return Mismatch("a REPLAY round with segments");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckManifest(const AttemptTerms& terms, const ManifestLimits& limits, const RoundManifest& manifest) {
  RETURN_IF_ERROR(CheckHead(terms, manifest));
  RETURN_IF_ERROR(CheckTokens(terms, manifest));
  return CheckSegments(terms, limits, manifest);
}

}  // namespace riskkv::worker
