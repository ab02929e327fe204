#include "services/worker/core/move_manifest.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/kv/layout.h"
#include "fmt/format.h"
#include "services/worker/core/move_provenance.h"

namespace riskkv::worker {
namespace {

absl::Status Mismatch(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MANIFEST_MISMATCH", message);
}
absl::Status BadRange(std::string message) { return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE", message); }

absl::Status CheckHead(const AttemptTerms& t, const RoundManifest& m) {
  RETURN_IF_ERROR(CheckCompatible(m.fingerprint, *t.fingerprint));
  if (m.mode != t.mode && !(t.mode == MoveMode::kRisk && m.mode == MoveMode::kFull)) {
    return Mismatch(fmt::format("round in mode {}, reserved for {}", MoveModeName(m.mode), MoveModeName(t.mode)));
  }
  if (m.mode == MoveMode::kRisk && (m.predictor_set != t.predictor_set || m.profile != t.profile)) {
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

// Counts as given, before anything is computed from them.
absl::Status CheckShape(const AttemptTerms& t, const ManifestLimits& limits, const Segment& s, int64_t frontier) {
  if (absl::Status layers = CheckLayers(t.fingerprint->layout, s.layers); !layers.ok() || s.layers.empty()) {
    return BadRange(fmt::format("segment {}: bad layers ({} of them)", s.id, s.layers.size()));
  }
  if (s.sha256.size() != 64) return BadRange(fmt::format("segment {}: digest of {} characters", s.id, s.sha256.size()));
  if (s.kind == SegmentKind::kCells) {
    if (s.range.begin < 0 || s.range.empty() || s.range.end > frontier || s.range.size() > limits.max_segment_tokens || !s.positions.empty()) {
      return BadRange(fmt::format("segment {}: cells [{}, {}) below {}, at most {}", s.id, s.range.begin, s.range.end, frontier,
                                  limits.max_segment_tokens));
    }
  } else if (s.positions.empty() || s.positions.size() > limits.max_probe_tokens || s.rebuild) {
    return BadRange(fmt::format("segment {}: a probe of {} tokens, 1 to {}", s.id, s.positions.size(), limits.max_probe_tokens));
  }
  const int64_t want = s.tokens() * static_cast<int64_t>(s.layers.size()) * t.fingerprint->layout.bytes_per_token_layer();
  if (s.bytes != want || want > limits.max_segment_bytes) {
    return Mismatch(fmt::format("segment {}: {} bytes declared, {} tokens of {} layers are {} (at most {})", s.id, s.bytes, s.tokens(),
                                s.layers.size(), want, limits.max_segment_bytes));
  }
  return absl::OkStatus();
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

// The probe must cover every omitted layer and lie within the block before it, on tokens computed natively.
absl::Status CheckProbeSegment(const AttemptTerms& t, const Segment& s, const Segment* block, const TokenRanges& rebuilt) {
  if (block == nullptr || !block->rebuild || t.rules == nullptr || s.layers != t.rules->omitted_layers) {
    return Mismatch(fmt::format("probe segment {} does not follow a block to rebuild, or not with its omitted layers", s.id));
  }
  int64_t last = block->range.begin - 1;
  for (int64_t p : s.positions) {
    if (p <= last || p >= block->range.end || rebuilt.Contains(p)) {
      return BadRange(fmt::format("probe segment {}: position {} is not ascending, not within [{}, {}) or not native", s.id, p,
                                  block->range.begin, block->range.end));
    }
    last = p;
  }
  return absl::OkStatus();
}

bool NeedsProbe(const Segment& block, const TokenRanges& rebuilt) { return block.rebuild && !rebuilt.Contains(block.range); }

absl::Status CheckSegments(const AttemptTerms& t, const ManifestLimits& limits, const RoundManifest& m) {
  if (m.segments.size() > limits.max_segments) return BadRange(fmt::format("{} segments, at most {}", m.segments.size(), limits.max_segments));
  RETURN_IF_ERROR(CheckProvenance(m.provenance, m.frontier));
  if (m.mode == MoveMode::kRisk) RETURN_IF_ERROR(CheckSameProvenance(m.provenance, m.predictor_set, m.profile));
  const TokenRanges rebuilt = RebuiltRanges(m.provenance);
  int64_t at = t.frontier, bytes = 0;
  uint32_t last_id = t.last_segment;
  const Segment* block = nullptr;  // the last cells, while they may still get their probe
  bool owed = false;
  for (const Segment& s : m.segments) {
    if (s.id <= last_id) return Mismatch(fmt::format("segment id {} after {}", s.id, last_id));
    last_id = s.id;
    RETURN_IF_ERROR(CheckShape(t, limits, s, m.frontier));
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
  if (owed) return Mismatch(fmt::format("the block up to {} is to be rebuilt and has no probe", at));
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
