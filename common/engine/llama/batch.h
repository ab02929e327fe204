// A llama_batch that frees itself.
#ifndef RISKKV_COMMON_ENGINE_LLAMA_BATCH_H_
#define RISKKV_COMMON_ENGINE_LLAMA_BATCH_H_

#include "common/engine/llama/llama_engine.h"
#include "llama.h"

namespace riskkv {

struct LlamaEngine::Batch {
  explicit Batch(int capacity) : batch(llama_batch_init(capacity, 0, 1)) {}
  ~Batch() { llama_batch_free(batch); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Clear() { batch.n_tokens = 0; }
  void Add(SeqId seq, int64_t position, Token token, bool logits) {
    const int i = batch.n_tokens++;
    batch.token[i] = token;
    batch.pos[i] = static_cast<llama_pos>(position);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = seq;
    batch.logits[i] = logits;
  }

  llama_batch batch;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_BATCH_H_
