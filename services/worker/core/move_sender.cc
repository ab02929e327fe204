#include "services/worker/core/move_sender.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/rebuild.h"
#include "fmt/format.h"
#include "services/worker/core/move_provenance.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kPollFirst = absl::Milliseconds(1);
constexpr absl::Duration kPollLast = absl::Milliseconds(20);
constexpr int kPushTries = 2;

absl::Status CancelledStatus() { return absl::CancelledError("the move was cancelled"); }

// Tokens [from, upto) of a request.
std::vector<Token> Tokens(const RequestSnapshot& s, int64_t from, int64_t upto) {
  std::vector<Token> out;
  const int64_t n_prompt = static_cast<int64_t>(s.prompt.size());
  for (int64_t i = from; i < upto; ++i) {
    out.push_back(i < n_prompt ? s.prompt[static_cast<std::size_t>(i)] : s.log[static_cast<std::size_t>(i - n_prompt)].token);
  }
  return out;
}

std::string_view BytesOf(const std::vector<uint16_t>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size() * sizeof(uint16_t)};
}

bool WorthRepeating(const absl::Status& status) { return ReasonOf(status) == "CHECKSUM" || absl::IsUnavailable(status); }

}  // namespace

RoundSender::RoundSender(SendTerms terms, RequestManager* manager, DestinationPeer* peer, Cancellation* cancel)
    : terms_(std::move(terms)), manager_(manager), peer_(peer), cancel_(cancel) {}

absl::StatusOr<RoundSample> RoundSender::Send(const RequestSnapshot& snapshot, int64_t upto, int64_t body_end, bool last) {
  RoundSample sample;
  sample.cells = upto - frontier_;
  if (sample.cells <= 0) return sample;
  if (terms_.policy.mode == MoveMode::kReplay) {
    Batch batch;
    batch.manifest.frontier = upto;
    batch.manifest.final = last;
    batch.manifest.tokens = Tokens(snapshot, frontier_, upto);
    RETURN_IF_ERROR(Ship(batch, snapshot, sample));
    return sample;
  }
  const std::vector<BlockPlan> blocks = PlanBlocks(terms_.policy, {frontier_, upto}, body_end);
  RETURN_IF_ERROR(ShipAll(blocks, snapshot, last, sample));
  return sample;
}

absl::Status RoundSender::ShipAll(const std::vector<BlockPlan>& blocks, const RequestSnapshot& snapshot, bool last, RoundSample& sample) {
  std::size_t next = 0;
  absl::StatusOr<Batch> batch = Export(blocks, next);
  for (;;) {
    RETURN_IF_ERROR(batch.status());
    const bool done = next == blocks.size();
    batch->manifest.final = last && done;
    // One at a time works on what Export changes; leaving early waits for it.
    std::future<absl::StatusOr<Batch>> following;
    if (!done && terms_.policy.coded != nullptr) following = std::async(std::launch::async, [&] { return Export(blocks, next); });
    RETURN_IF_ERROR(Ship(*batch, snapshot, sample));
    if (done) return absl::OkStatus();
    batch = following.valid() ? following.get() : Export(blocks, next);
  }
}

// Coded blocks go one by one, so that coding, the way and decoding overlap.
bool RoundSender::Full(const Batch& batch) const {
  if (batch.bytes >= terms_.max_batch_bytes) return true;
  return !batch.coded.empty() && batch.manifest.segments.back().kind == SegmentKind::kProbe;
}

absl::StatusOr<RoundSender::Batch> RoundSender::Export(const std::vector<BlockPlan>& blocks, std::size_t& next) {
  Batch batch;
  batch.cells.reserve(blocks.size() - next);  // payloads borrow from these: they must not move
  batch.probes.reserve(blocks.size() - next);
  batch.coded.reserve(blocks.size() - next);
  while (next < blocks.size() && !Full(batch)) {
    if (cancel_->cancelled()) return CancelledStatus();
    RETURN_IF_ERROR(AddBlock(blocks[next], batch));
    batch.manifest.frontier = blocks[next].cells.range.end;
    ++next;
  }
  return batch;
}

absl::Status RoundSender::AddBlock(const BlockPlan& plan, Batch& batch) {
  bool probed = !plan.probe.positions.empty();
  // One call on the engine's thread; the probe's rows are picked here.
  ASSIGN_OR_RETURN(KvBlock all, manager_->Export(terms_.fence.request_id, plan.cells.range,
                                                 probed ? AllLayers(terms_.policy.layout) : plan.cells.layers));
  Segment cells = plan.cells;
  if (cells.encoding != CellEncoding::kCanonical) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(EncodedCells encoded, EncodeCells(*terms_.policy.coded, cells.encoding, all, scratch_));
    encode_ += absl::Now() - start;
    cells.encoding = encoded.encoding;
    probed = encoded.encoding == CellEncoding::kCoded;
    if (!encoded.bytes.empty()) batch.coded.push_back(std::move(encoded.bytes));
  }
  if (probed) {
    ASSIGN_OR_RETURN(ProbeRows rows, GatherRows(all, plan.probe.positions, plan.probe.layers));
    batch.probes.push_back(std::move(rows));
  }
  if (cells.encoding == CellEncoding::kCanonical) {
    if (probed) {
      ASSIGN_OR_RETURN(all, Slice(all, cells.range, cells.layers));
    }
    batch.cells.push_back(std::move(all));
    AddSegment(cells, BytesOf(batch.cells.back().data), batch);
  } else {
    AddSegment(cells, batch.coded.back(), batch);
  }
  if (probed) AddSegment(plan.probe, BytesOf(batch.probes.back().data), batch);
  if (plan.cells.rebuild) tokens_omitted_ += plan.cells.range.size();
  return absl::OkStatus();
}

void RoundSender::AddSegment(Segment segment, std::string_view bytes, Batch& batch) {
  segment.id = ++last_segment_;
  segment.bytes = static_cast<int64_t>(bytes.size());
  segment.sha256 = Sha256Hex(bytes);
  batch.bytes += segment.bytes;
  batch.payloads.push_back({segment.id, bytes});
  batch.manifest.segments.push_back(std::move(segment));
}

absl::Status RoundSender::Ship(Batch& batch, const RequestSnapshot& snapshot, RoundSample& sample) {
  RoundManifest& m = batch.manifest;
  m.fence = terms_.fence;
  m.fingerprint = manager_->facts().fingerprint;
  m.mode = terms_.policy.mode;
  if (terms_.policy.lossy()) {
    m.predictor_set = terms_.predictor_set;
    m.profile = terms_.profile;
  }
  m.round = ++round_;
  m.provenance = ClipProvenance(snapshot.provenance, {frontier_, m.frontier});
  RETURN_IF_ERROR(Declare(m, sample));
  if (!batch.payloads.empty()) RETURN_IF_ERROR(PushAll(batch, sample));
  frontier_ = m.frontier;
  sample.bytes += batch.bytes;
  bytes_sent_ += batch.bytes;
  return absl::OkStatus();
}

absl::Status RoundSender::Declare(const RoundManifest& manifest, RoundSample& sample) {
  absl::Duration poll = kPollFirst;
  const absl::Time give_up = absl::Now() + terms_.no_progress;
  for (int tries = 1;; ++tries) {
    const absl::Time start = absl::Now();
    auto reply = peer_->DeclareRound(manifest, cancel_);
    const absl::Duration took = absl::Now() - start;
    if (reply.ok()) {
      if (sample.call == absl::ZeroDuration() || took < sample.call) sample.call = took;
      return absl::OkStatus();
    }
    // A full staging area empties as the destination appends.
    const bool full = ReasonOf(reply.status()) == "STAGING_FULL";
    if (cancel_->cancelled() || absl::Now() >= give_up) return reply.status();
    if (!full && (!absl::IsUnavailable(reply.status()) || tries >= kPushTries)) return reply.status();
    absl::SleepFor(poll);
    poll = std::min(poll * 2, kPollLast);
  }
}

absl::Status RoundSender::PushAll(const Batch& batch, RoundSample& sample) {
  const absl::Time start = absl::Now();
  absl::Status status;
  for (int tries = 0; tries < kPushTries; ++tries) {
    status = peer_->Push(terms_.fence, batch.payloads, cancel_).status();
    if (status.ok() || cancel_->cancelled() || !WorthRepeating(status)) break;
  }
  const absl::Duration took = absl::Now() - start;
  sample.transfer += took;
  transfer_ += took;
  return status;
}

absl::Status RoundSender::Settle(RoundSample& sample) {
  absl::Duration poll = kPollFirst;
  const absl::Time start = absl::Now();
  absl::Time moved = start;
  int64_t seen = -1;
  for (;;) {
    const absl::Time asked = absl::Now();
    auto reply = peer_->Push(terms_.fence, {}, cancel_);
    const absl::Time now = absl::Now();
    if (!reply.ok()) return reply.status();
    if (sample.call == absl::ZeroDuration() || now - asked < sample.call) sample.call = now - asked;
    if (reply->rebuilt_frontier >= frontier_) break;
    if (reply->rebuilt_frontier > seen) {
      seen = reply->rebuilt_frontier;
      moved = now;
    } else if (now - moved > terms_.no_progress) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS",
                       fmt::format("the destination has been at cell {} of {} for {}", seen, frontier_, absl::FormatDuration(now - moved)));
    }
    if (cancel_->cancelled()) return CancelledStatus();
    absl::SleepFor(poll);
    poll = std::min(poll * 2, kPollLast);
  }
  sample.settle = absl::Now() - start;
  return absl::OkStatus();
}

}  // namespace riskkv::worker
