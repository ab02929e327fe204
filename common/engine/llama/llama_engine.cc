// Loading a model, text and the sequences' ledger. Computing is in llama_step.cc, moving cells in
// llama_cells.cc.
#include "common/engine/llama/llama_engine.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "common/engine/llama/batch.h"
#include "common/engine/llama/gguf_file.h"
#include "common/engine/llama/log.h"
#include "common/engine/llama/model_support.h"
#include "common/engine/llama/sampler.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr int kScratchSequences = 2;  // one id for Export, one for Append
constexpr int kMaxSequences = 256;    // LLAMA_MAX_SEQ

absl::Status CheckOptions(const LlamaOptions& o) {
  if (o.n_cells <= 0 || o.n_cells > std::numeric_limits<int32_t>::max() / 2) {
    return absl::InvalidArgumentError(fmt::format("n_cells is {}", o.n_cells));
  }
  if (o.n_sequences <= 0 || o.n_sequences > kMaxSequences - kScratchSequences) {
    return absl::InvalidArgumentError(fmt::format("n_sequences is {}, must be within [1, {}]", o.n_sequences,
                                                  kMaxSequences - kScratchSequences));
  }
  if (o.threads <= 0 || o.threads > 512)
    return absl::InvalidArgumentError(fmt::format("threads is {}", o.threads));
  if (o.score_batch < 64 || o.max_batch < o.score_batch || o.max_batch > 1 << 16) {
    return absl::InvalidArgumentError(fmt::format(
        "max_batch is {}, score_batch {}: 64 <= score_batch <= max_batch", o.max_batch, o.score_batch));
  }
  return absl::OkStatus();
}

void InitBackendOnce() {
  static std::once_flag once;
  std::call_once(once, [] { llama_backend_init(); });
}

// Weights may be laid out anew for faster kernels (repacking), unless llama.cpp would use AMX: g++ 12 drops
// the stores that fill the tile configuration (its ldtilecfg intrinsic claims to read 8 of 64 bytes), and the
// first batch of two tokens ends the process with an illegal instruction.
bool MayRepackWeights() {
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (cpu == nullptr) return true;
  auto list = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  if (list == nullptr) return true;
  for (ggml_backend_buffer_type_t* type = list(cpu); type != nullptr && *type != nullptr; ++type) {
    if (std::string_view(ggml_backend_buft_name(*type)) == "AMX") return false;
  }
  return true;
}

// abort_callback: called by ggml's threads between the nodes of a graph.
bool Interrupted(void* flag) {
  return static_cast<const std::atomic<bool>*>(flag)->load(std::memory_order_relaxed);
}

}  // namespace

void LlamaEngine::FreeModel::operator()(llama_model* model) const { llama_model_free(model); }
void LlamaEngine::FreeContext::operator()(llama_context* context) const { llama_free(context); }

LlamaEngine::LlamaEngine(const LlamaOptions& options, ModelFacts facts)
    : options_(options), facts_(std::move(facts)) {
  limits_ = {options.n_cells, options.n_sequences, options.max_batch, options.threads};
  lengths_.assign(static_cast<std::size_t>(options.n_sequences), -1);
}

LlamaEngine::~LlamaEngine() = default;

absl::StatusOr<std::unique_ptr<LlamaEngine>> LlamaEngine::Create(const LlamaOptions& options) {
  CaptureLlamaLog();
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(options.model_path));
  ASSIGN_OR_RETURN(ModelFacts facts, ReadModelFacts(file));
  ASSIGN_OR_RETURN(facts.fingerprint.weights_digest, CachedFileDigest(options.model_path));
  InitBackendOnce();
  std::unique_ptr<LlamaEngine> engine(new LlamaEngine(options, std::move(facts)));
  RETURN_IF_ERROR(engine->Load());
  return engine;
}

absl::Status LlamaEngine::Load() {
  LlamaErrorScope errors;
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options_.gpu_layers;
  params.use_extra_bufts = MayRepackWeights();
  model_.reset(llama_model_load_from_file(options_.model_path.c_str(), params));
  if (model_ == nullptr) {
    return absl::InvalidArgumentError(fmt::format("model {}: llama.cpp refuses it: {}", options_.model_path,
                                                  errors.Text("no reason given")));
  }
  vocab_ = llama_model_get_vocab(model_.get());
  facts_.n_vocab = llama_vocab_n_tokens(vocab_);
  facts_.n_ctx_train = llama_model_n_ctx_train(model_.get());
  facts_.n_params = static_cast<int64_t>(llama_model_n_params(model_.get()));
  facts_.bos = llama_vocab_bos(vocab_);
  facts_.eos = llama_vocab_eos(vocab_);
  RETURN_IF_ERROR(CheckLoadedModel());
  RETURN_IF_ERROR(CreateContext());
  sampler_ = std::make_unique<LlamaSampler>(vocab_);
  batch_ = std::make_unique<Batch>(options_.max_batch);
  return absl::OkStatus();
}

// What was read from the metadata must be what llama.cpp made of it.
absl::Status LlamaEngine::CheckLoadedModel() {
  const KvLayout& layout = facts_.fingerprint.layout;
  const llama_rope_type want =
      layout.rope.pairing == kernels::RopePairing::kHalves ? LLAMA_ROPE_TYPE_NEOX : LLAMA_ROPE_TYPE_NORM;
  auto refuse = [this](std::string_view what) {
    return absl::FailedPreconditionError(
        fmt::format("model {}: {} not supported", options_.model_path, what));
  };
  if (llama_model_rope_type(model_.get()) != want) return refuse("this rotary embedding is");
  if (llama_model_n_swa(model_.get()) > 0) return refuse("sliding window attention is");
  if (llama_model_is_recurrent(model_.get()) || llama_model_is_hybrid(model_.get()))
    return refuse("recurrent layers are");
  if (llama_model_has_encoder(model_.get())) return refuse("an encoder is");
  if (llama_model_n_layer(model_.get()) != layout.n_layer ||
      llama_model_n_head_kv(model_.get()) != layout.n_head_kv) {
    return refuse("this layer layout is");
  }
  return absl::OkStatus();
}

absl::Status LlamaEngine::CreateContext() {
  LlamaErrorScope errors;
  const uint32_t n_seq = static_cast<uint32_t>(options_.n_sequences + kScratchSequences);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options_.n_cells);
  params.n_batch = static_cast<uint32_t>(options_.max_batch);
  params.n_ubatch = params.n_batch;
  params.n_seq_max = n_seq;
  // Left at 0 llama.cpp reserves logits for a whole batch; fewer than this aborts the process.
  params.n_outputs_max = std::max(n_seq, static_cast<uint32_t>(options_.score_batch));
  params.n_threads = options_.threads;
  params.n_threads_batch = options_.threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;  // V is not transposed then
  params.type_k = GGML_TYPE_F16;
  params.type_v = GGML_TYPE_F16;
  params.kv_unified = true;  // sequences share cells: seq_cp is a matter of labels
  params.abort_callback = &Interrupted;
  params.abort_callback_data = &interrupted_;
  params.no_perf = true;
  params.offload_kqv = options_.gpu_layers > 0;
  context_.reset(llama_init_from_model(model_.get(), params));
  if (context_ == nullptr) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                     fmt::format("model {}: no context of {} cells: {}", options_.model_path,
                                 options_.n_cells, errors.Text("no reason given")));
  }
  // llama.cpp lowers a batch to the context; a longer one would abort the process.
  limits_.max_batch = std::min(options_.max_batch, static_cast<int>(llama_n_batch(context_.get())));
  return absl::OkStatus();
}

absl::Status LlamaEngine::CheckSampling(const SamplingParams& params) const {
  RETURN_IF_ERROR(params.Validate());
  return sampler_->CheckGrammar(params.grammar);
}

absl::StatusOr<std::vector<Token>> LlamaEngine::Tokenize(std::string_view text, bool add_special,
                                                         bool parse_special) const {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int32_t>::max() / 4)) {
    return absl::InvalidArgumentError(fmt::format("a text of {} bytes", text.size()));
  }
  const int32_t size = static_cast<int32_t>(text.size());
  std::vector<Token> tokens(text.size() + 2);
  int32_t n = llama_tokenize(vocab_, text.data(), size, tokens.data(), static_cast<int32_t>(tokens.size()),
                             add_special, parse_special);
  if (n < 0 && n != std::numeric_limits<int32_t>::min()) {
    tokens.resize(static_cast<std::size_t>(-n));
    n = llama_tokenize(vocab_, text.data(), size, tokens.data(), -n, add_special, parse_special);
  }
  if (n < 0)
    return absl::InternalError(fmt::format("a text of {} bytes could not be tokenised", text.size()));
  tokens.resize(static_cast<std::size_t>(n));
  return tokens;
}

std::string LlamaEngine::TokenText(Token token, bool special) const {
  if (token < 0 || token >= facts_.n_vocab) return "";
  std::string piece(32, '\0');
  int32_t n =
      llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, special);
  if (n < 0) {
    piece.resize(static_cast<std::size_t>(-n));
    n = llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, special);
  }
  piece.resize(static_cast<std::size_t>(std::max(n, 0)));
  return piece;
}

absl::StatusOr<std::string> LlamaEngine::ChatPrompt(std::string_view system, std::string_view user) const {
  const char* chat_template = llama_model_chat_template(model_.get(), nullptr);
  if (chat_template == nullptr)
    return system.empty() ? std::string(user) : fmt::format("{}\n{}", system, user);
  // llama.cpp takes C strings and would cut these off.
  if (system.find('\0') != std::string_view::npos || user.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("a chat message holds a zero byte");
  }
  const std::string system_text(system);
  const std::string user_text(user);
  std::vector<llama_chat_message> messages;
  if (!system_text.empty()) messages.push_back({"system", system_text.c_str()});
  messages.push_back({"user", user_text.c_str()});
  std::string out(2 * (system.size() + user.size()) + 1024, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int32_t n =
        llama_chat_apply_template(chat_template, messages.data(), messages.size(), /*add_ass=*/true,
                                  out.data(), static_cast<int32_t>(out.size()));
    if (n < 0) {
      return absl::FailedPreconditionError(
          fmt::format("model {}: llama.cpp does not know its chat template", options_.model_path));
    }
    const bool fits = static_cast<std::size_t>(n) <= out.size();
    out.resize(static_cast<std::size_t>(n));
    if (fits) return out;
  }
  return absl::InternalError("the chat template's length changes");
}

absl::StatusOr<SeqId> LlamaEngine::OpenSequence() {
  auto it = std::find(lengths_.begin(), lengths_.end(), -1);
  if (it == lengths_.end()) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_SLOT",
                     fmt::format("all {} sequences are open", limits_.n_sequences));
  }
  *it = 0;
  return static_cast<SeqId>(it - lengths_.begin());
}

void LlamaEngine::CloseSequence(SeqId seq) {
  if (!IsOpen(seq)) return;
  DropCells(seq, 0);
  SetLength(seq, 0);
  lengths_[static_cast<std::size_t>(seq)] = -1;
  sampler_->Forget(seq);
}

bool LlamaEngine::IsOpen(SeqId seq) const {
  return seq >= 0 && static_cast<std::size_t>(seq) < lengths_.size() &&
         lengths_[static_cast<std::size_t>(seq)] >= 0;
}

int64_t LlamaEngine::Length(SeqId seq) const {
  return IsOpen(seq) ? lengths_[static_cast<std::size_t>(seq)] : 0;
}

void LlamaEngine::SetLength(SeqId seq, int64_t n) {
  cells_used_ += n - lengths_[static_cast<std::size_t>(seq)];
  lengths_[static_cast<std::size_t>(seq)] = n;
}

void LlamaEngine::DropCells(SeqId seq, int64_t n) {
  llama_memory_seq_rm(llama_get_memory(context_.get()), seq, static_cast<llama_pos>(n), -1);
}

absl::Status LlamaEngine::Truncate(SeqId seq, int64_t n) {
  if (!IsOpen(seq)) return absl::InvalidArgumentError(fmt::format("unknown sequence {}", seq));
  if (n < 0 || n > Length(seq)) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {} has {} cells, cannot be cut to {}", seq, Length(seq), n));
  }
  DropCells(seq, n);
  SetLength(seq, n);
  return absl::OkStatus();
}

}  // namespace riskkv
