#include "services/worker/core/scheduler.h"

#include <algorithm>

namespace riskkv::worker {
namespace {

int64_t Lacking(const RequestRecord& r) { return r.n_tokens() - r.n_kv; }

}  // namespace

Batch ComposeBatch(const std::vector<RecordPtr>& running, int max_batch, int prefill_chunk, int64_t rotation) {
  Batch batch;
  int64_t room = max_batch;
  const std::size_t n = running.size();
  // Starting elsewhere matters only when not all fit; otherwise the order stays that of arrival.
  const std::size_t first = static_cast<int64_t>(n) > room ? static_cast<std::size_t>(rotation) * static_cast<std::size_t>(room) % n : 0;
  for (std::size_t i = 0; i < n && room > 0; ++i) {
    const RecordPtr& r = running[(first + i) % n];
    if (Lacking(*r) != 1) continue;
    batch.push_back({r, 1, true});
    --room;
  }
  room = std::min<int64_t>(room, prefill_chunk);
  for (std::size_t i = 0; i < n && room > 0; ++i) {
    const RecordPtr& r = running[i];
    const int64_t lacking = Lacking(*r);
    if (lacking == 1) continue;
    const int64_t tokens = std::min(lacking, room);
    batch.push_back({r, tokens, tokens == lacking});
    room -= tokens;
  }
  return batch;
}

std::vector<StepItem> ToItems(std::span<const BatchEntry> batch) {
  std::vector<StepItem> items;
  items.reserve(batch.size());
  for (const BatchEntry& entry : batch) {
    const RequestRecord& r = *entry.record;
    const std::span<const Token> history(r.history);
    StepItem item;
    item.seq = r.seq;
    item.n_past = r.n_kv;
    item.tokens = history.subspan(static_cast<std::size_t>(r.n_kv), static_cast<std::size_t>(entry.tokens));
    item.sample = entry.sample;
    if (entry.sample) {
      item.sampling = &r.params.sampling;
      item.history = history;
      item.n_prompt = r.n_prompt;
      const int64_t index = r.n_tokens() - r.n_prompt;
      item.forbid_end = r.params.stop.ignore_eos || index + 1 < r.params.stop.min_tokens;
    }
    items.push_back(item);
  }
  return items;
}

}  // namespace riskkv::worker
