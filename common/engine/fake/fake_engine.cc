#include "common/engine/fake/fake_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/engine/checks.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr std::size_t kScoreBatch = 128;

absl::Status UnknownSequence(SeqId seq) {
  return absl::InvalidArgumentError(fmt::format("unknown sequence {}", seq));
}

// A number in [0, 1) from a hash.
double Unit(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1.0p-53; }

ModelFacts MakeFacts(const FakeOptions& o) {
  ModelFacts facts;
  facts.name = "fake";
  facts.n_vocab = o.n_vocab;
  facts.n_embd = 4 * o.n_head_kv * o.head_dim;
  facts.n_head = o.n_head_kv;
  facts.n_ctx_train = 1 << 20;
  facts.bos = kFakeBos;
  facts.eos = kFakeEos;
  facts.fingerprint.architecture = "fake";
  facts.fingerprint.weights_digest = Sha256Hex(fmt::format("fake weights {}", o.model_seed));
  facts.fingerprint.tokenizer_digest = Sha256Hex(fmt::format("fake tokenizer {}", o.n_vocab));
  KvLayout& layout = facts.fingerprint.layout;
  layout.n_layer = o.n_layer;
  layout.n_head_kv = o.n_head_kv;
  layout.head_dim = o.head_dim;
  layout.rope.pairing = o.rope;
  layout.rope.rotary_dim = o.rope == kernels::RopePairing::kNone ? 0 : o.head_dim;
  return facts;
}

}  // namespace

FakeEngine::FakeEngine(const FakeOptions& options) : options_(options), facts_(MakeFacts(options)) {
  limits_ = {options.n_cells, options.n_sequences, options.max_batch, /*threads=*/1};
}

absl::StatusOr<std::unique_ptr<FakeEngine>> FakeEngine::Create(const FakeOptions& o) {
  if (o.n_layer <= 0 || o.n_head_kv <= 0 || o.head_dim <= 0 || o.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("bad shape: {} layers, {} heads of {}", o.n_layer, o.n_head_kv, o.head_dim));
  }
  if (o.n_cells <= 0 || o.n_sequences <= 0 || o.max_batch <= 0 || o.n_vocab < kFakeFirstLetter) {
    return absl::InvalidArgumentError(
        fmt::format("bad limits: {} cells, {} sequences, batch {}, vocabulary {} (at least {})", o.n_cells,
                    o.n_sequences, o.max_batch, o.n_vocab, kFakeFirstLetter));
  }
  return std::unique_ptr<FakeEngine>(new FakeEngine(o));
}

absl::StatusOr<std::vector<Token>> FakeEngine::Tokenize(std::string_view text, bool add_special,
                                                        bool parse_special) const {
  std::vector<Token> tokens;
  if (add_special) tokens.push_back(kFakeBos);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i, 5);
    if (parse_special && (rest == "<bos>" || rest == "<eos>")) {
      tokens.push_back(rest == "<bos>" ? kFakeBos : kFakeEos);
      i += 4;
    } else {
      tokens.push_back(static_cast<unsigned char>(text[i]));
    }
  }
  return tokens;
}

std::string FakeEngine::TokenText(Token token, bool special) const {
  if (token < 0 || token >= facts_.n_vocab) return "";
  if (token < kFakeBos) return std::string(1, static_cast<char>(token));
  if (token >= kFakeFirstLetter)
    return std::string(1, static_cast<char>('a' + (token - kFakeFirstLetter) % 26));
  if (!special) return "";
  return token == kFakeBos ? "<bos>" : "<eos>";
}

absl::StatusOr<std::string> FakeEngine::ChatPrompt(std::string_view system, std::string_view user) const {
  return system.empty() ? std::string(user) : fmt::format("{}\n{}", system, user);
}

absl::StatusOr<SeqId> FakeEngine::OpenSequence() {
  RETURN_IF_ERROR(TakeFault(FakeFault::kOpen));
  if (OpenSequences() >= limits_.n_sequences) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_SLOT",
                     fmt::format("all {} sequences are open", limits_.n_sequences));
  }
  SeqId seq = 0;
  while (sequences_.count(seq) > 0) ++seq;
  sequences_[seq];
  return seq;
}

void FakeEngine::CloseSequence(SeqId seq) {
  cells_used_ -= Length(seq);
  sequences_.erase(seq);
}

int64_t FakeEngine::Length(SeqId seq) const {
  auto it = sequences_.find(seq);
  return it == sequences_.end() ? 0 : static_cast<int64_t>(it->second.size() / token_elements());
}

absl::Status FakeEngine::Truncate(SeqId seq, int64_t n) {
  auto it = sequences_.find(seq);
  if (it == sequences_.end()) return UnknownSequence(seq);
  if (n < 0 || n > Length(seq)) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {} has {} cells, cannot be cut to {}", seq, Length(seq), n));
  }
  cells_used_ -= Length(seq) - n;
  it->second.resize(static_cast<std::size_t>(n) * token_elements());
  return absl::OkStatus();
}

uint64_t FakeEngine::PrefixHash(const std::vector<uint16_t>& cells) const {
  uint64_t prefix = kFakeEmptyPrefix;
  for (std::size_t at = 0; at < cells.size(); at += token_elements()) {
    prefix = FakeExtendPrefix(prefix, cells.data() + at, token_elements());
  }
  return prefix;
}

void FakeEngine::Feed(std::vector<uint16_t>& cells, uint64_t& prefix, Token token) {
  const std::size_t at = cells.size();
  cells.resize(at + token_elements());
  FakeCells(facts_.fingerprint.layout, options_.model_seed, prefix, token, cells.data() + at);
  prefix = FakeExtendPrefix(prefix, cells.data() + at, token_elements());
}

Sampled FakeEngine::Draw(uint64_t prefix, const StepItem& item) const {
  const uint64_t hash = FakeDrawHash(prefix, *item.sampling, item.history);
  const int64_t index = static_cast<int64_t>(item.history.size()) - item.n_prompt;
  Sampled out;
  out.end_of_generation = options_.eos_after >= 0 && index >= options_.eos_after && !item.forbid_end;
  out.token = out.end_of_generation ? kFakeEos : FakeDraw(hash, facts_.n_vocab);
  out.logprob = static_cast<float>(-0.01 - Unit(MixSeed(hash, 1)));
  out.margin = static_cast<float>(0.5 + Unit(MixSeed(hash, 2)));
  for (int i = 0; i < item.sampling->n_logprobs; ++i) {
    const Token alternative =
        i == 0 ? out.token : FakeDraw(MixSeed(hash, 16 + static_cast<uint64_t>(i)), facts_.n_vocab);
    out.top.emplace_back(alternative,
                         i == 0 ? out.logprob : out.logprob - out.margin - 0.1f * static_cast<float>(i));
  }
  return out;
}

absl::StatusOr<std::vector<Sampled>> FakeEngine::Step(std::span<const StepItem> items) {
  auto length = [this](SeqId seq) { return sequences_.count(seq) > 0 ? Length(seq) : -1; };
  RETURN_IF_ERROR(CheckStep(items, limits_, facts_.n_vocab, limits_.n_cells - cells_used_, length));
  RETURN_IF_ERROR(TakeFault(FakeFault::kStep));
  int64_t tokens = 0;
  for (const StepItem& item : items) tokens += static_cast<int64_t>(item.tokens.size());
  RETURN_IF_ERROR(Spend(options_.step_delay + tokens * options_.token_delay));
  std::vector<Sampled> results;
  for (const StepItem& item : items) {
    std::vector<uint16_t>& cells = sequences_[item.seq];
    uint64_t prefix = PrefixHash(cells);
    for (Token t : item.tokens) Feed(cells, prefix, t);
    if (item.sample) results.push_back(Draw(prefix, item));
  }
  cells_used_ += tokens;
  ++steps_;
  return results;
}

absl::StatusOr<std::vector<float>> FakeEngine::Score(SeqId seq, std::span<const Token> tokens,
                                                     std::span<const Token> targets) {
  auto it = sequences_.find(seq);
  if (it == sequences_.end()) return UnknownSequence(seq);
  if (tokens.size() != targets.size()) {
    return absl::InvalidArgumentError(fmt::format("{} tokens but {} targets", tokens.size(), targets.size()));
  }
  RETURN_IF_ERROR(CheckTokens(tokens, facts_.n_vocab));
  RETURN_IF_ERROR(CheckTokens(targets, facts_.n_vocab));
  RETURN_IF_ERROR(CheckCells(static_cast<int64_t>(tokens.size()), limits_.n_cells - cells_used_));
  RETURN_IF_ERROR(TakeFault(FakeFault::kScore));
  for (std::size_t at = 0; at < tokens.size(); at += kScoreBatch) {
    const int64_t n = static_cast<int64_t>(std::min(kScoreBatch, tokens.size() - at));
    RETURN_IF_ERROR(Spend(options_.step_delay + n * options_.token_delay));
  }
  std::vector<float> nll;
  uint64_t prefix = PrefixHash(it->second);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Feed(it->second, prefix, tokens[i]);
    nll.push_back(static_cast<float>(0.5 + 4.0 * Unit(MixSeed(prefix, static_cast<uint64_t>(targets[i])))));
  }
  cells_used_ += static_cast<int64_t>(tokens.size());
  return nll;
}

absl::StatusOr<KvBlock> FakeEngine::Export(SeqId seq, TokenRange range, const std::vector<int>& layers) {
  const KvLayout& layout = facts_.fingerprint.layout;
  auto it = sequences_.find(seq);
  if (it == sequences_.end()) return UnknownSequence(seq);
  RETURN_IF_ERROR(CheckExport(layout, seq, Length(seq), range, layers));
  RETURN_IF_ERROR(TakeFault(FakeFault::kExport));
  KvBlock block = KvBlock::Make(layout, range, layers);
  const std::size_t kv = static_cast<std::size_t>(layout.kv());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (int64_t t = 0; t < range.size(); ++t) {
      const uint16_t* row = it->second.data() + static_cast<std::size_t>(range.begin + t) * token_elements() +
                            static_cast<std::size_t>(layers[i]) * 2 * kv;
      std::copy_n(row, kv, block.k(static_cast<int>(i)) + static_cast<std::size_t>(t) * kv);
      std::copy_n(row + kv, kv, block.v(static_cast<int>(i)) + static_cast<std::size_t>(t) * kv);
    }
  }
  return block;
}

absl::Status FakeEngine::Append(SeqId seq, const KvBlock& block) {
  const KvLayout& layout = facts_.fingerprint.layout;
  auto it = sequences_.find(seq);
  if (it == sequences_.end()) return UnknownSequence(seq);
  RETURN_IF_ERROR(CheckAppend(layout, block, Length(seq), limits_.n_cells - cells_used_));
  RETURN_IF_ERROR(TakeFault(FakeFault::kAppend));
  if (options_.append_delay > absl::ZeroDuration()) absl::SleepFor(options_.append_delay);
  const std::size_t kv = static_cast<std::size_t>(layout.kv());
  for (int64_t t = 0; t < block.range.size(); ++t) {
    for (int l = 0; l < layout.n_layer; ++l) {
      const uint16_t* k = block.k(l) + static_cast<std::size_t>(t) * kv;
      const uint16_t* v = block.v(l) + static_cast<std::size_t>(t) * kv;
      it->second.insert(it->second.end(), k, k + kv);
      it->second.insert(it->second.end(), v, v + kv);
    }
  }
  cells_used_ += block.range.size();
  return absl::OkStatus();
}

absl::Status FakeEngine::TakeFault(FakeFault fault) {
  MutexLock lock(faults_mu_);
  auto it = faults_.find(fault);
  if (it == faults_.end() || it->second.skip-- > 0) return absl::OkStatus();
  absl::Status status = it->second.status;
  faults_.erase(it);
  return status;
}

absl::Status FakeEngine::Spend(absl::Duration cost) {
  const absl::Time end = absl::Now() + cost;
  for (;;) {
    if (interrupted_.exchange(false)) return absl::CancelledError("interrupted");
    const absl::Duration left = cost > absl::ZeroDuration() ? end - absl::Now() : absl::ZeroDuration();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    absl::SleepFor(std::min(left, absl::Milliseconds(1)));
  }
}

void FakeEngine::InjectFault(FakeFault fault, absl::Status status, int skip) {
  MutexLock lock(faults_mu_);
  faults_[fault] = {std::move(status), skip};
}

uint16_t* FakeEngine::MutableCells(SeqId seq) {
  auto it = sequences_.find(seq);
  return it == sequences_.end() ? nullptr : it->second.data();
}

}  // namespace riskkv
