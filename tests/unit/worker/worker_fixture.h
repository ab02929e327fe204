// One RequestManager over a FakeEngine, and clients that read its streams.
#ifndef RISKKV_TESTS_UNIT_WORKER_WORKER_FIXTURE_H_
#define RISKKV_TESTS_UNIT_WORKER_WORKER_FIXTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/engine/fake/fake_engine.h"
#include "services/worker/core/request_manager.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker::testing {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

inline constexpr absl::Duration kSoon = absl::Seconds(20);  // far above what anything takes

// A fake engine that says what a test wrote: the text of chosen tokens, the tokens drawn, the steps that fail.
class ScriptedEngine : public Engine {
 public:
  explicit ScriptedEngine(const FakeOptions& options) : fake(FakeEngine::Create(options).value()) {}

  const ModelFacts& facts() const override { return fake->facts(); }
  const EngineLimits& limits() const override { return fake->limits(); }
  absl::Status CheckSampling(const SamplingParams& params) const override { return fake->CheckSampling(params); }
  absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special, bool parse_special) const override {
    return fake->Tokenize(text, add_special, parse_special);
  }
  std::string TokenText(Token token, bool special) const override {
    auto it = texts.find(token);
    return it == texts.end() ? fake->TokenText(token, special) : it->second;
  }
  absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const override {
    return fake->ChatPrompt(system, user);
  }
  absl::StatusOr<SeqId> OpenSequence() override { return fake->OpenSequence(); }
  void CloseSequence(SeqId seq) override { fake->CloseSequence(seq); }
  int64_t Length(SeqId seq) const override { return fake->Length(seq); }
  int64_t CellsUsed() const override { return fake->CellsUsed(); }
  absl::Status Truncate(SeqId seq, int64_t n) override { return fake->Truncate(seq, n); }
  absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens, std::span<const Token> targets) override {
    return fake->Score(seq, tokens, targets);
  }
  absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) override {
    return fake->Export(seq, range, layers);
  }
  absl::Status Append(SeqId seq, const KvBlock& block) override { return fake->Append(seq, block); }
  void Interrupt() override { fake->Interrupt(); }

  absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) override {
    if (before_step) before_step();
    for (const StepItem& item : items) {
      for (Token t : item.tokens) {
        if (t == poison) return absl::InternalError("poisoned");
      }
    }
    auto result = fake->Step(items);
    if (!result.ok()) return result;
    Note(items);
    std::size_t i = 0;
    for (const StepItem& item : items) {
      if (!item.sample) continue;
      Sampled& s = (*result)[i++];
      const std::size_t index = item.history.size() - static_cast<std::size_t>(item.n_prompt);
      if (index < script.size()) s.token = script[index];
    }
    return result;
  }
  // Tokens of each item of each step, in order.
  std::vector<std::vector<int64_t>> shapes() const {
    MutexLock lock(mu_);
    return shapes_;
  }

  // Set before the manager starts.
  std::map<Token, std::string> texts;
  std::vector<Token> script;  // the output tokens by index; beyond it, the fake's own
  Token poison = -1;
  std::function<void()> before_step;
  const std::unique_ptr<FakeEngine> fake;

 private:
  void Note(std::span<const StepItem> items) {
    MutexLock lock(mu_);
    shapes_.emplace_back();
    for (const StepItem& item : items) shapes_.back().push_back(static_cast<int64_t>(item.tokens.size()));
  }
  mutable Mutex mu_;
  std::vector<std::vector<int64_t>> shapes_ ABSL_GUARDED_BY(mu_);
};

// What a client got.
struct Received {
  std::vector<LoggedToken> tokens;
  std::vector<MovingEvent> moving;
  std::optional<MovedEvent> moved;
  std::optional<EndEvent> end;
  bool superseded = false;
  absl::Status error;  // of Next, when the stream ended so

  std::vector<Token> ids() const {
    std::vector<Token> out;
    for (const LoggedToken& t : tokens) out.push_back(t.token);
    return out;
  }
  std::string text() const {
    std::string out;
    for (const LoggedToken& t : tokens) out += t.text;
    return out;
  }
};

// Reads until the stream ends or `enough` says so.
inline Received ReadUntil(Subscription& stream, const std::function<bool(const Received&)>& enough) {
  Received got;
  const absl::Time deadline = absl::Now() + kSoon;
  while (!enough(got) && absl::Now() < deadline) {
    auto event = stream.Next(absl::Milliseconds(200));
    if (!event.ok() && absl::IsDeadlineExceeded(event.status())) continue;
    if (!event.ok()) {
      got.error = event.status();
      return got;
    }
    if (auto* t = std::get_if<LoggedToken>(&*event)) got.tokens.push_back(*t);
    if (auto* m = std::get_if<MovingEvent>(&*event)) got.moving.push_back(*m);
    if (auto* m = std::get_if<MovedEvent>(&*event)) got.moved = *m;
    if (auto* e = std::get_if<EndEvent>(&*event)) got.end = *e;
    if (std::holds_alternative<SupersededEvent>(*event)) got.superseded = true;
    if (got.moved || got.end || got.superseded) return got;
  }
  return got;
}
inline Received ReadAll(Subscription& stream) {
  return ReadUntil(stream, [](const Received&) { return false; });
}
inline Received ReadTokens(Subscription& stream, std::size_t n) {
  return ReadUntil(stream, [n](const Received& r) { return r.tokens.size() >= n; });
}

// Polls until it holds.
inline bool Eventually(const std::function<bool()>& holds) {
  const absl::Time deadline = absl::Now() + kSoon;
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

inline std::vector<Token> Prompt(int n, Token first = 'a') {
  std::vector<Token> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<Token>(first + i * 7 % 20));
  return tokens;
}
inline RequestParams Greedy(int max_tokens) {
  RequestParams params;
  params.stop.max_tokens = max_tokens;
  return params;
}

// A worker of a test. The engine belongs to the manager: read it only while nothing computes.
struct TestWorker {
  explicit TestWorker(FakeOptions engine_options = {}, ManagerOptions options = {},
                      const std::function<void(ScriptedEngine&)>& prepare = nullptr) {
    auto made = std::make_unique<ScriptedEngine>(engine_options);
    engine = made.get();
    if (prepare) prepare(*engine);
    options.worker_id = "w";
    if (options.boot_id.empty()) options.boot_id = "b00t";
    manager = RequestManager::Create(std::move(options), std::move(made), &clock).value();
  }
  std::string Admit(RequestParams params, std::vector<Token> prompt) {
    auto id = manager->Admit(std::move(params), std::move(prompt));
    EXPECT_OK(id);
    return id.ok() ? *id : "";
  }
  std::unique_ptr<Subscription> Attach(const std::string& id, int64_t from = 0, uint64_t min_epoch = 0) {
    auto stream = manager->Attach(id, from, min_epoch);
    EXPECT_OK(stream);
    return stream.ok() ? *std::move(stream) : nullptr;
  }
  // Admits, reads to the end.
  Received Generate(RequestParams params, std::vector<Token> prompt) {
    const std::string id = Admit(std::move(params), std::move(prompt));
    auto stream = Attach(id);
    return stream ? ReadAll(*stream) : Received{};
  }
  RequestState StateOf(const std::string& id) {
    auto snapshot = manager->Get(id);
    return snapshot.ok() ? snapshot->state : RequestState::kQueued;
  }
  bool Idle() {
    const ManagerLoad load = manager->Load();
    return load.cells_used == 0 && load.slots_used == 0 && load.running == 0 && load.queued == 0;
  }

  FakeClock clock;
  ScriptedEngine* engine = nullptr;
  std::unique_ptr<RequestManager> manager;
};

// A step slow enough that a test can act while a request runs.
inline FakeOptions Slow(absl::Duration step = absl::Milliseconds(2)) {
  FakeOptions options;
  options.step_delay = step;
  return options;
}

}  // namespace riskkv::worker::testing

#endif  // RISKKV_TESTS_UNIT_WORKER_WORKER_FIXTURE_H_
