// Moving cells: Export and Append, by way of two scratch sequence ids. Cells are labelled, not copied, inside
// llama.cpp.
#include <algorithm>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "common/engine/llama/batch.h"
#include "common/engine/llama/llama_engine.h"
#include "common/engine/llama/log.h"
#include "common/engine/llama/sampler.h"
#include "common/engine/llama/state_format.h"
#include "fmt/format.h"
#include "llama.h"

namespace riskkv {
namespace {

// Tokens that go through llama.cpp's state at once: bounds the buffer (12 MB for SmolLM2).
constexpr int64_t kPiece = 512;

// A scratch sequence id that holds no cells once this is gone.
class Scratch {
 public:
  Scratch(llama_memory_t memory, llama_seq_id id) : memory_(memory), id_(id) {}
  ~Scratch() { llama_memory_seq_rm(memory_, id_, -1, -1); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  llama_seq_id id() const { return id_; }

 private:
  llama_memory_t memory_;
  llama_seq_id id_;
};

}  // namespace

absl::StatusOr<KvBlock> LlamaEngine::Export(SeqId seq, TokenRange range, const std::vector<int>& layers) {
  const KvLayout& layout = facts_.fingerprint.layout;
  if (!IsOpen(seq)) return absl::InvalidArgumentError(fmt::format("unknown sequence {}", seq));
  RETURN_IF_ERROR(CheckExport(layout, seq, Length(seq), range, layers));
  KvBlock block = KvBlock::Make(layout, range, layers);
  for (int64_t at = range.begin; at < range.end; at += kPiece) {
    RETURN_IF_ERROR(ExportPiece(seq, {at, std::min(range.end, at + kPiece)}, block));
  }
  return block;
}

absl::Status LlamaEngine::ExportPiece(SeqId seq, TokenRange range, KvBlock& block) {
  llama_memory_t memory = llama_get_memory(context_.get());
  LlamaErrorScope errors;
  Scratch scratch(memory, limits_.n_sequences);
  llama_memory_seq_cp(memory, seq, scratch.id(), static_cast<llama_pos>(range.begin),
                      static_cast<llama_pos>(range.end));
  state_.resize(LlamaStateSize(facts_.fingerprint.layout, range.size()));
  const std::size_t n = llama_state_seq_get_data(context_.get(), state_.data(), state_.size(), scratch.id());
  if (n != state_.size()) {
    return absl::InternalError(fmt::format("llama.cpp's state of [{}, {}) has {} bytes, expected {}: {}",
                                           range.begin, range.end, n, state_.size(),
                                           errors.Text("no reason given")));
  }
  return ReadLlamaState(state_, facts_.fingerprint.layout, range, block);
}

absl::Status LlamaEngine::Append(SeqId seq, const KvBlock& block) {
  if (!IsOpen(seq)) return absl::InvalidArgumentError(fmt::format("unknown sequence {}", seq));
  RETURN_IF_ERROR(CheckAppend(facts_.fingerprint.layout, block, Length(seq), CellsFree()));
  const int64_t before = Length(seq);
  for (int64_t at = block.range.begin; at < block.range.end; at += kPiece) {
    absl::Status status = AppendPiece(seq, {at, std::min(block.range.end, at + kPiece)}, block);
    if (!status.ok()) {
      DropCells(seq, before);
      SetLength(seq, before);
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status LlamaEngine::AppendPiece(SeqId seq, TokenRange range, const KvBlock& block) {
  llama_memory_t memory = llama_get_memory(context_.get());
  LlamaErrorScope errors;
  Scratch scratch(memory, limits_.n_sequences + 1);
  WriteLlamaState(facts_.fingerprint.layout, block, range, state_);
  if (llama_state_seq_set_data(context_.get(), state_.data(), state_.size(), scratch.id()) != state_.size()) {
    return absl::InternalError(fmt::format("llama.cpp does not take the cells [{}, {}): {}", range.begin,
                                           range.end, errors.Text("no reason given")));
  }
  llama_memory_seq_cp(memory, scratch.id(), seq, static_cast<llama_pos>(range.begin),
                      static_cast<llama_pos>(range.end));
  SetLength(seq, range.end);
  return absl::OkStatus();
}

}  // namespace riskkv
