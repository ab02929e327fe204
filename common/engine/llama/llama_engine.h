// The engine over llama.cpp: GGUF models on the CPU (or what llama.cpp was built for).
//
// Numbers depend on layout (threads, foreign cells, other requests in the batch, cell order move a decoded
// token's log-probability by up to facts().logprob_noise). Equal bits are promised only for equal threads,
// one sequence, cells in order from cell 0; and for batches of 64 tokens and more from cell 0 of an empty
// cache.
#ifndef RISKKV_COMMON_ENGINE_LLAMA_LLAMA_ENGINE_H_
#define RISKKV_COMMON_ENGINE_LLAMA_LLAMA_ENGINE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/engine/engine.h"

struct llama_model;
struct llama_context;
struct llama_vocab;

namespace riskkv {

class LlamaSampler;

struct LlamaOptions {
  std::string model_path;
  int64_t n_cells = 8192;  // KV cells over all sequences
  int n_sequences = 8;     // at most 254: two more ids are used inside
  int threads = 1;         // ggml's threads spin: keep the sum over all processes at or below the cores
  int max_batch = 512;     // tokens in one Step
  int score_batch =
      128;  // tokens in one batch of Score, at least 64; bounds the logits buffer (score_batch * vocabulary)
  int gpu_layers = 0;  // layers llama.cpp may put on its device, where it was built for one
};

// Threading and errors as Engine. Interrupt is honoured within one graph node (milliseconds) on the CPU.
class LlamaEngine : public Engine {
 public:
  // Loads the model. NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS and FAILED_PRECONDITION (model not supported,
  // model_support.h) name the file; RESOURCE_EXHAUSTED when the cache cannot be allocated. Reads the whole
  // file once for its digest.
  static absl::StatusOr<std::unique_ptr<LlamaEngine>> Create(const LlamaOptions& options);
  ~LlamaEngine() override;

  const ModelFacts& facts() const override { return facts_; }
  const EngineLimits& limits() const override { return limits_; }
  absl::Status CheckSampling(const SamplingParams& params) const override;
  absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special,
                                              bool parse_special) const override;
  std::string TokenText(Token token, bool special) const override;
  absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const override;

  absl::StatusOr<SeqId> OpenSequence() override;
  void CloseSequence(SeqId seq) override;
  int64_t Length(SeqId seq) const override;
  int64_t CellsUsed() const override { return cells_used_; }
  absl::Status Truncate(SeqId seq, int64_t n) override;
  absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) override;
  absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens,
                                           std::span<const Token> targets) override;
  absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) override;
  absl::Status Append(SeqId seq, const KvBlock& block) override;
  void Interrupt() override { interrupted_ = true; }

 private:
  struct FreeModel {
    void operator()(llama_model* model) const;
  };
  struct FreeContext {
    void operator()(llama_context* context) const;
  };
  struct Batch;

  LlamaEngine(const LlamaOptions& options, ModelFacts facts);
  absl::Status Load();
  absl::Status CreateContext();
  absl::Status CheckLoadedModel();

  bool IsOpen(SeqId seq) const;
  int64_t CellsFree() const { return limits_.n_cells - cells_used_; }
  void SetLength(SeqId seq, int64_t n);
  // Drops every cell of `seq` from n on, whatever the ledger says.
  void DropCells(SeqId seq, int64_t n);
  absl::Status Decode();  // of batch_
  absl::StatusOr<std::vector<Sampled>> DrawAll(std::span<const StepItem> items);
  absl::Status ScoreBatch(SeqId seq, std::span<const Token> tokens, std::span<const Token> targets,
                          std::vector<float>& nll);
  absl::Status ExportPiece(SeqId seq, TokenRange range, KvBlock& block);
  absl::Status AppendPiece(SeqId seq, TokenRange range, const KvBlock& block);

  const LlamaOptions options_;
  ModelFacts facts_;
  EngineLimits limits_;
  std::atomic<bool> interrupted_{false};
  std::unique_ptr<llama_model, FreeModel> model_;
  std::unique_ptr<llama_context, FreeContext> context_;
  const llama_vocab* vocab_ = nullptr;
  std::unique_ptr<LlamaSampler> sampler_;
  std::unique_ptr<Batch> batch_;
  std::vector<int64_t> lengths_;  // by sequence id; -1: not open. The ledger: llama.cpp cannot be asked
  int64_t cells_used_ = 0;
  std::vector<uint8_t> state_;  // one piece of Export or Append in llama.cpp's format
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_LLAMA_ENGINE_H_
