// A deterministic engine for tests: no model, real cells. Its next token is a hash over every byte it holds
// for the sequence, so one wrong, missing or doubled byte anywhere changes what it says.
#ifndef RISKKV_COMMON_ENGINE_FAKE_FAKE_ENGINE_H_
#define RISKKV_COMMON_ENGINE_FAKE_FAKE_ENGINE_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/engine/fake/fake_model.h"

namespace riskkv {

struct FakeOptions {
  int n_layer = 10;
  int n_head_kv = 1;
  int head_dim = 4;
  int64_t n_cells = 8192;
  int n_sequences = 16;
  int n_vocab = 512;  // at least 258; more makes two hashes less likely to draw the same token
  int max_batch = 512;
  uint64_t model_seed = 1;  // another seed is another model, with another fingerprint
  // Stated in the fingerprint only: cells are the same whatever it says. With kNone a rebuild of copied
  // layers is bit-exact.
  kernels::RopePairing rope = kernels::RopePairing::kNone;
  int64_t eos_after = -1;  // the output token of this index (0 = first) is the end of text, unless forbidden
  absl::Duration step_delay =
      absl::ZeroDuration();  // simulated cost of each Step (and of each batch of Score)
  absl::Duration token_delay = absl::ZeroDuration();   // and of each token in it
  absl::Duration append_delay = absl::ZeroDuration();  // and of each Append
};

// Where a fault may be put in.
enum class FakeFault { kStep, kScore, kExport, kAppend, kOpen };

// Threading as Engine, and InjectFault from any thread. Step counts neither time nor faults when it refuses a
// bad call.
class FakeEngine : public Engine {
 public:
  // INVALID_ARGUMENT for a shape that makes no sense.
  static absl::StatusOr<std::unique_ptr<FakeEngine>> Create(const FakeOptions& options);

  const ModelFacts& facts() const override { return facts_; }
  const EngineLimits& limits() const override { return limits_; }
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

  // The call of that kind after `skip` more succeeds no more: it returns `status` and changes nothing. One
  // fault a kind.
  void InjectFault(FakeFault fault, absl::Status status, int skip = 0);
  // Bytes as they lie: [token][layer][K|V][kv]. Writing through it is how a test damages a cache. nullptr
  // when unknown.
  uint16_t* MutableCells(SeqId seq);
  int OpenSequences() const { return static_cast<int>(sequences_.size()); }
  int64_t steps() const { return steps_; }

 private:
  struct Fault {
    absl::Status status;
    int skip = 0;
  };

  explicit FakeEngine(const FakeOptions& options);
  absl::Status TakeFault(FakeFault fault);
  // Sleeps in slices; CANCELLED when interrupted.
  absl::Status Spend(absl::Duration cost);
  uint64_t PrefixHash(const std::vector<uint16_t>& cells) const;
  Sampled Draw(uint64_t prefix, const StepItem& item) const;
  void Feed(std::vector<uint16_t>& cells, uint64_t& prefix, Token token);
  std::size_t token_elements() const {
    return static_cast<std::size_t>(facts_.fingerprint.layout.n_layer) * 2 * facts_.fingerprint.layout.kv();
  }

  const FakeOptions options_;
  ModelFacts facts_;
  EngineLimits limits_;
  std::map<SeqId, std::vector<uint16_t>> sequences_;
  int64_t cells_used_ = 0;
  int64_t steps_ = 0;
  std::atomic<bool> interrupted_{false};
  Mutex faults_mu_;
  std::map<FakeFault, Fault> faults_ ABSL_GUARDED_BY(faults_mu_);
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_FAKE_FAKE_ENGINE_H_
