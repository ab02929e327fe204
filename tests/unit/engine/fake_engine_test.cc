#include "common/engine/fake/fake_engine.h"

#include <algorithm>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/fp16.h"
#include "tests/testing/engine_driver.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::Continue;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::MoveStream;
using ::riskkv::testing::StartStream;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::Stream;
using ::testing::HasSubstr;

std::unique_ptr<FakeEngine> Make(FakeOptions options = {}) {
  auto engine = FakeEngine::Create(options);
  EXPECT_OK(engine);
  return std::move(engine).value();
}

std::vector<Token> Prompt(Engine& engine,
                          std::string_view text = "The quick brown fox jumps over the lazy dog.") {
  return engine.Tokenize(text, /*add_special=*/true, /*parse_special=*/false).value();
}

TEST(FakeEngineTest, TwoEnginesSayTheSame) {
  auto a = Make(), b = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(*a, Prompt(*a), params, 7));
  ASSERT_OK_AND_ASSIGN(Stream y, StartStream(*b, Prompt(*b), params, 64));
  ASSERT_OK(Continue(*a, x, params, 50));
  ASSERT_OK(Continue(*b, y, params, 50));
  EXPECT_EQ(x.tokens, y.tokens);
  for (Token t : x.output()) EXPECT_EQ(a->TokenText(t, false).size(), 1u);
}

TEST(FakeEngineTest, ParametersAndModelMatter) {
  FakeOptions other;
  other.model_seed = 2;
  auto a = Make(), b = Make(other);
  SamplingParams warm;
  warm.temperature = 0.8f;
  SamplingParams warm2 = warm;
  warm2.seed = 1;
  auto run = [](FakeEngine& e, const SamplingParams& p) {
    Stream s = StartStream(e, Prompt(e), p).value();
    EXPECT_OK(Continue(e, s, p, 12));
    return s.output();
  };
  EXPECT_NE(run(*a, {}), run(*b, {}));
  EXPECT_NE(run(*a, {}), run(*a, warm));
  EXPECT_NE(run(*a, warm), run(*a, warm2));
  EXPECT_EQ(run(*a, warm), run(*a, warm));
  EXPECT_NE(FingerprintDigest(a->facts().fingerprint), FingerprintDigest(b->facts().fingerprint));
}

TEST(FakeEngineTest, AMovedStreamGoesOnIdentically) {
  std::mt19937 rng(3);
  for (int64_t block : {int64_t{1}, int64_t{3}, int64_t{16}, int64_t{1000}}) {
    auto a = Make(), b = Make();
    SamplingParams params;
    params.temperature = 1.0f;
    params.seed = rng();
    params.repeat_penalty = 1.1f;
    ASSERT_OK_AND_ASSIGN(Stream x, StartStream(*a, Prompt(*a), params));
    ASSERT_OK(Continue(*a, x, params, 5));
    ASSERT_OK_AND_ASSIGN(Stream y, MoveStream(*a, *b, x, block));
    ASSERT_OK(Continue(*a, x, params, 40));
    ASSERT_OK(Continue(*b, y, params, 40));
    EXPECT_EQ(x.tokens, y.tokens) << "blocks of " << block;
  }
}

// The oracle: every single byte of the cache decides what is said.
TEST(FakeEngineTest, EveryByteChangesTheOutput) {
  auto engine = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream stream, StartStream(*engine, Prompt(*engine, "abc"), params));
  ASSERT_OK(Continue(*engine, stream, params, 3));
  const int64_t length = engine->Length(stream.seq);
  const std::vector<int> layers = AllLayers(engine->facts().fingerprint.layout);
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, engine->Export(stream.seq, {0, length}, layers));
  auto next = [&](const KvBlock& block) {
    Stream copy = stream;
    copy.seq = engine->OpenSequence().value();
    EXPECT_OK(engine->Append(copy.seq, block));
    EXPECT_OK(Continue(*engine, copy, params, 6));
    engine->CloseSequence(copy.seq);
    return copy.output();
  };
  const std::vector<Token> want = next(cells);
  for (std::size_t i = 0; i < cells.data.size(); ++i) {
    KvBlock damaged = cells;
    damaged.data[i] ^= static_cast<uint16_t>(i % 2 == 0 ? 0x0001 : 0x8000);
    ASSERT_NE(next(damaged), want) << "element " << i;
  }
  EXPECT_EQ(next(cells), want);
}

TEST(FakeEngineTest, SwappedOrMissingTokensChangeTheOutput) {
  auto engine = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream stream, StartStream(*engine, Prompt(*engine), params));
  const int64_t n = engine->Length(stream.seq);
  const std::vector<int> layers = AllLayers(engine->facts().fingerprint.layout);
  ASSERT_OK_AND_ASSIGN(KvBlock cells, engine->Export(stream.seq, {0, n}, layers));
  KvBlock swapped = cells;
  for (int l = 0; l < static_cast<int>(layers.size()); ++l) {
    std::swap_ranges(swapped.k(l), swapped.k(l) + cells.kv, swapped.k(l) + cells.kv);
    std::swap_ranges(swapped.v(l), swapped.v(l) + cells.kv, swapped.v(l) + cells.kv);
  }
  auto next = [&](const KvBlock& block) {
    Stream copy = stream;
    copy.seq = engine->OpenSequence().value();
    EXPECT_OK(engine->Append(copy.seq, block));
    EXPECT_OK(Continue(*engine, copy, params, 8));
    return copy.output();
  };
  EXPECT_NE(next(cells), next(swapped));
}

TEST(FakeEngineTest, ExportOfPartsEqualsSlices) {
  auto engine = Make();
  ASSERT_OK_AND_ASSIGN(Stream stream, StartStream(*engine, Prompt(*engine), {}));
  const int64_t n = engine->Length(stream.seq);
  ASSERT_OK_AND_ASSIGN(const KvBlock all,
                       engine->Export(stream.seq, {0, n}, AllLayers(engine->facts().fingerprint.layout)));
  ASSERT_OK_AND_ASSIGN(const KvBlock part, engine->Export(stream.seq, {3, 20}, {0, 4, 9}));
  ASSERT_OK_AND_ASSIGN(const KvBlock want, Slice(all, {3, 20}, {0, 4, 9}));
  EXPECT_EQ(part.data, want.data);
  EXPECT_EQ(part.Digest(), want.Digest());
}

TEST(FakeEngineTest, TargetLayersAreCopiesAndThePredictorSelectsThem) {
  auto engine = Make();
  const KvLayout& layout = engine->facts().fingerprint.layout;
  ASSERT_OK_AND_ASSIGN(Stream stream, StartStream(*engine, Prompt(*engine), {}));
  const int64_t n = engine->Length(stream.seq);
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, engine->Export(stream.seq, {0, n}, AllLayers(layout)));
  const std::vector<FakeGroupWeights> groups = FakePredictor(layout);
  ASSERT_EQ(groups.size(), 2u);
  const std::size_t kv = static_cast<std::size_t>(layout.kv());
  for (const FakeGroupWeights& g : groups) {
    for (int64_t t = 0; t < n; ++t) {
      std::vector<float> x;
      for (int a : g.anchors) {
        for (std::size_t i = 0; i < kv; ++i) x.push_back(kernels::HalfToFloat(cells.k(a)[t * kv + i]));
        for (std::size_t i = 0; i < kv; ++i) x.push_back(kernels::HalfToFloat(cells.v(a)[t * kv + i]));
      }
      for (std::size_t j = 0; j < g.bias.size(); ++j) {
        float z = g.bias[j];
        for (std::size_t i = 0; i < x.size(); ++i) z += x[i] * g.b[i * g.bias.size() + j];
        const int target = g.targets[j / (2 * kv)];
        const std::size_t e = j % (2 * kv);
        const uint16_t want = e < kv ? cells.k(target)[t * kv + e] : cells.v(target)[t * kv + e - kv];
        ASSERT_EQ(kernels::FloatToHalf(z), want) << "target " << target << " element " << e;
      }
    }
  }
}

TEST(FakeEngineTest, HalfOfIntIsExact) {
  for (int v = -2048; v <= 2048; ++v) ASSERT_EQ(kernels::HalfToFloat(HalfOfInt(v)), static_cast<float>(v));
}

TEST(FakeEngineTest, LedgerOfCellsAndSlots) {
  FakeOptions options;
  options.n_cells = 10;
  options.n_sequences = 2;
  auto engine = Make(options);
  ASSERT_OK_AND_ASSIGN(const SeqId a, engine->OpenSequence());
  ASSERT_OK_AND_ASSIGN(const SeqId b, engine->OpenSequence());
  EXPECT_THAT(engine->OpenSequence(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(engine->OpenSequence(), HasReason("NO_SLOT"));
  EXPECT_OK(testing::Feed(*engine, a, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(testing::Feed(*engine, b, {1, 2, 3, 4, 5}), HasReason("NO_BLOCKS"));
  EXPECT_EQ(engine->Length(b), 0);
  EXPECT_EQ(engine->CellsUsed(), 6);
  EXPECT_OK(engine->Truncate(a, 2));
  EXPECT_EQ(engine->CellsUsed(), 2);
  EXPECT_THAT(engine->Truncate(a, 3), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(testing::Feed(*engine, b, {1, 2, 3, 4, 5}));
  engine->CloseSequence(a);
  engine->CloseSequence(a);
  engine->CloseSequence(99);
  EXPECT_EQ(engine->CellsUsed(), 5);
  EXPECT_OK(engine->OpenSequence());
}

TEST(FakeEngineTest, TruncateForgets) {
  auto engine = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream stream, StartStream(*engine, Prompt(*engine), params));
  Stream again = stream;
  ASSERT_OK(Continue(*engine, stream, params, 9));
  ASSERT_OK(engine->Truncate(stream.seq, static_cast<int64_t>(again.tokens.size()) - 1));
  ASSERT_OK(Continue(*engine, again, params, 9));
  EXPECT_EQ(again.tokens, stream.tokens);
}

TEST(FakeEngineTest, BadCallsAreRefused) {
  auto engine = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream s, StartStream(*engine, Prompt(*engine), params));
  const auto kBad = absl::StatusCode::kInvalidArgument;
  const std::vector<Token> one = {s.tokens.back()};
  StepItem item;
  item.seq = s.seq;
  item.n_past = engine->Length(s.seq);
  item.tokens = one;
  auto step = [&](const StepItem& i) { return engine->Step(std::span(&i, 1)); };
  StepItem bad = item;
  bad.n_past -= 1;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("n_past")));
  bad = item;
  bad.seq = 77;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("unknown sequence 77")));
  bad = item;
  bad.tokens = {};
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("no tokens")));
  const std::vector<Token> wrong = {100000};
  bad = item;
  bad.tokens = wrong;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("100000")));
  bad = item;
  bad.sample = true;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("without parameters")));
  bad.sampling = &params;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("history")));
  std::vector<Token> history = s.tokens;
  history.back() = (history.back() + 1) % 256;
  bad.history = history;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("does not end")));
  const StepItem twice[] = {item, item};
  EXPECT_THAT(engine->Step(twice), StatusIs(kBad, HasSubstr("twice")));
  const std::vector<Token> many(1000, 1);
  bad = item;
  bad.tokens = many;
  EXPECT_THAT(step(bad), StatusIs(kBad, HasSubstr("at most 512")));
  EXPECT_EQ(engine->Length(s.seq), item.n_past);
  ASSERT_OK_AND_ASSIGN(KvBlock cells, engine->Export(s.seq, {0, 5}, {0, 1}));
  ASSERT_OK_AND_ASSIGN(const SeqId fresh, engine->OpenSequence());
  EXPECT_THAT(engine->Append(fresh, cells), StatusIs(kBad, HasSubstr("2 of 10 layers")));
  ASSERT_OK_AND_ASSIGN(cells, engine->Export(s.seq, {2, 5}, AllLayers(engine->facts().fingerprint.layout)));
  EXPECT_THAT(engine->Append(fresh, cells), StatusIs(kBad, HasSubstr("begins at token 2")));
  EXPECT_THAT(engine->Export(s.seq, {0, 10000}, {0}), StatusIs(kBad));
  EXPECT_THAT(engine->Export(s.seq, {0, 1}, {0, 10}), StatusIs(kBad));
}

TEST(FakeEngineTest, EndOfTextWhenAsked) {
  FakeOptions options;
  options.eos_after = 3;
  auto engine = Make(options);
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream s, StartStream(*engine, Prompt(*engine), params));
  ASSERT_OK(Continue(*engine, s, params, 3));
  EXPECT_EQ(s.output().back(), kFakeEos);
  EXPECT_NE(s.output()[2], kFakeEos);
}

TEST(FakeEngineTest, FaultsHitOnceAndChangeNothing) {
  auto engine = Make();
  const SamplingParams params;
  ASSERT_OK_AND_ASSIGN(Stream s, StartStream(*engine, Prompt(*engine), params));
  engine->InjectFault(FakeFault::kStep, absl::InternalError("boom"), /*skip=*/1);
  ASSERT_OK(Continue(*engine, s, params, 1));
  const int64_t n = engine->Length(s.seq);
  EXPECT_THAT(Continue(*engine, s, params, 1), StatusIs(absl::StatusCode::kInternal, HasSubstr("boom")));
  EXPECT_EQ(engine->Length(s.seq), n);
  ASSERT_OK(Continue(*engine, s, params, 1));
  engine->InjectFault(FakeFault::kAppend, absl::InternalError("disk"));
  EXPECT_THAT(MoveStream(*engine, *engine, s), StatusIs(absl::StatusCode::kInternal));
  EXPECT_OK(MoveStream(*engine, *engine, s));
}

TEST(FakeEngineTest, InterruptEndsOneCall) {
  FakeOptions options;
  options.step_delay = absl::Seconds(30);
  auto engine = Make(options);
  ASSERT_OK_AND_ASSIGN(const SeqId seq, engine->OpenSequence());
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(30));
    engine->Interrupt();
  });
  EXPECT_THAT(testing::Feed(*engine, seq, {1, 2}), StatusIs(absl::StatusCode::kCancelled));
  other.join();
  EXPECT_EQ(engine->Length(seq), 0);
  engine->Interrupt();
  EXPECT_THAT(testing::Feed(*engine, seq, {1, 2}), StatusIs(absl::StatusCode::kCancelled));
}

TEST(FakeEngineTest, ScoreDependsOnCellsAndTargets) {
  auto engine = Make();
  ASSERT_OK_AND_ASSIGN(const SeqId a, engine->OpenSequence());
  ASSERT_OK_AND_ASSIGN(const SeqId b, engine->OpenSequence());
  const std::vector<Token> tokens = {1, 2, 3, 4}, targets = {2, 3, 4, 5}, others = {2, 3, 4, 6};
  ASSERT_OK_AND_ASSIGN(const std::vector<float> x, engine->Score(a, tokens, targets));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> y, engine->Score(b, tokens, targets));
  EXPECT_EQ(x, y);
  EXPECT_EQ(engine->Length(a), 4);
  engine->MutableCells(b)[0] ^= 1;
  ASSERT_OK(engine->Truncate(a, 2));
  ASSERT_OK(engine->Truncate(b, 2));
  const std::span<const Token> rest = std::span(tokens).subspan(2);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> u, engine->Score(a, rest, std::span(others).subspan(2)));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> v, engine->Score(b, rest, std::span(others).subspan(2)));
  EXPECT_EQ(u[0], x[2]);
  EXPECT_NE(u[1], x[3]);
  EXPECT_NE(u[0], v[0]);
}

TEST(FakeEngineTest, Tokens) {
  auto engine = Make();
  ASSERT_OK_AND_ASSIGN(const auto plain, engine->Tokenize("a<eos>", true, false));
  EXPECT_EQ(plain.size(), 7u);
  ASSERT_OK_AND_ASSIGN(const auto parsed, engine->Tokenize("a<eos>", true, true));
  EXPECT_EQ(parsed, (std::vector<Token>{kFakeBos, 'a', kFakeEos}));
  EXPECT_EQ(engine->TokenText(kFakeEos, false), "");
  EXPECT_EQ(engine->TokenText(kFakeEos, true), "<eos>");
  EXPECT_EQ(engine->TokenText(-1, true), "");
}

}  // namespace
}  // namespace riskkv
