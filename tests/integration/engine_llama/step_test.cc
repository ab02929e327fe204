// Computing: sampling, batches, teacher forcing, interruption.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/integration/engine_llama/llama_fixture.h"

namespace riskkv {
namespace {

using ::riskkv::testing::Continue;
using ::riskkv::testing::Feed;
using ::riskkv::testing::MoveStream;
using ::riskkv::testing::StartStream;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::Stream;
using ::testing::HasSubstr;

using StepTest = LlamaTest;

std::string TextOf(const Engine& engine, const std::vector<Token>& tokens) {
  std::string text;
  for (Token t : tokens) text += engine.TokenText(t, true);
  return text;
}

absl::StatusOr<std::vector<Token>> Generate(Engine& engine, const std::vector<Token>& prompt,
                                            const SamplingParams& params, int n) {
  auto stream = StartStream(engine, prompt, params, 512);
  if (!stream.ok()) return stream.status();
  absl::Status status = Continue(engine, *stream, params, n - 1);
  engine.CloseSequence(stream->seq);
  if (!status.ok()) return status;
  return stream->output();
}

TEST_F(StepTest, Facts) {
  const ModelFacts& facts = a().facts();
  const KvLayout& layout = facts.fingerprint.layout;
  EXPECT_EQ(layout.n_layer, 30);
  EXPECT_EQ(layout.n_head_kv, 3);
  EXPECT_EQ(layout.head_dim, 64);
  EXPECT_EQ(layout.rope.pairing, kernels::RopePairing::kNeighbours);
  EXPECT_EQ(layout.rope.freq_base, 100000.0f);
  EXPECT_EQ(facts.n_vocab, 49152);
  EXPECT_EQ(facts.n_embd, 576);
  EXPECT_EQ(facts.n_head, 9);
  EXPECT_EQ(facts.fingerprint.weights_digest.size(), 64u);
  EXPECT_OK(CheckCompatible(a().facts().fingerprint, b().facts().fingerprint));
}

TEST_F(StepTest, TextRoundTrip) {
  const std::string text = "Zürich — naïve café, 東京.\n\tEnd";
  ASSERT_OK_AND_ASSIGN(const std::vector<Token> tokens, a().Tokenize(text, false, false));
  EXPECT_EQ(TextOf(a(), tokens), text);
  ASSERT_OK_AND_ASSIGN(const std::vector<Token> none, a().Tokenize("", false, false));
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(a().TokenText(-1, true), "");
  EXPECT_EQ(a().TokenText(a().facts().eos, false), "");
  EXPECT_NE(a().TokenText(a().facts().eos, true), "");
}

TEST_F(StepTest, ChatPromptAndSpecialTokens) {
  ASSERT_OK_AND_ASSIGN(const std::string prompt, a().ChatPrompt("Be brief.", "Hello"));
  EXPECT_THAT(prompt, HasSubstr("<|im_start|>user\nHello<|im_end|>"));
  EXPECT_THAT(prompt, HasSubstr("<|im_start|>assistant"));
  ASSERT_OK_AND_ASSIGN(const auto plain, a().Tokenize(prompt, false, false));
  ASSERT_OK_AND_ASSIGN(const auto parsed, a().Tokenize(prompt, false, true));
  EXPECT_LT(parsed.size(), plain.size());
  const std::string zero("a\0b", 3);
  EXPECT_THAT(a().ChatPrompt("", zero), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(StepTest, GreedyIsSensibleAndRepeatable) {
  ASSERT_OK_AND_ASSIGN(const auto prompt, a().Tokenize("The capital of France is", true, false));
  ASSERT_OK_AND_ASSIGN(const auto x, Generate(a(), prompt, {}, 12));
  ASSERT_OK_AND_ASSIGN(const auto y, Generate(b(), prompt, {}, 12));
  EXPECT_EQ(x, y);
  EXPECT_THAT(TextOf(a(), x), HasSubstr("Paris"));
}

// The generator of a draw depends on the seed and the index alone: engines and moves do not show.
TEST_F(StepTest, SeededSamplingAcrossEnginesAndMoves) {
  SamplingParams p;
  p.temperature = 0.9f;
  p.top_k = 50;
  p.top_p = 0.95f;
  p.min_p = 0.01f;
  p.seed = 1234567890123ULL;
  p.repeat_penalty = 1.1f;
  p.presence_penalty = 0.2f;
  const std::vector<Token> prompt = Text(60);
  ASSERT_OK_AND_ASSIGN(const auto whole, Generate(a(), prompt, p, 40));
  ASSERT_OK_AND_ASSIGN(const auto again, Generate(b(), prompt, p, 40));
  EXPECT_EQ(whole, again);
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), prompt, p, 512));
  ASSERT_OK(Continue(a(), x, p, 13));
  ASSERT_OK_AND_ASSIGN(Stream y, MoveStream(a(), b(), x, 16));
  ASSERT_OK(Continue(b(), y, p, 26));
  EXPECT_EQ(y.output(), whole);
  p.seed += 1;
  ASSERT_OK_AND_ASSIGN(const auto other, Generate(a(), prompt, p, 40));
  EXPECT_NE(other, whole);
}

TEST_F(StepTest, GrammarHoldsAcrossAMove) {
  SamplingParams p;
  p.temperature = 1.0f;
  p.seed = 5;
  p.grammar = "root ::= \"[\" num (\", \" num)* \"]\"\nnum ::= [1-9] [0-9]? [0-9]?";
  EXPECT_OK(a().CheckSampling(p));
  ASSERT_OK_AND_ASSIGN(const auto prompt, a().Tokenize("Some numbers:", true, false));
  auto run = [&](int move_at) {
    Stream x = StartStream(a(), prompt, p).value();
    Engine* engine = &a();
    for (int i = 1; i < 24 && x.tokens.back() != a().facts().eos; ++i) {
      if (i == move_at) {
        x = MoveStream(a(), b(), x, 8).value();
        engine = &b();
      }
      EXPECT_OK(Continue(*engine, x, p, 1));
    }
    TearDown();
    return x.output();
  };
  const std::vector<Token> whole = run(-1);
  EXPECT_EQ(run(4), whole);
  const std::string text = TextOf(a(), whole);
  EXPECT_EQ(text[0], '[');
  EXPECT_EQ(text.substr(0, text.find('<')).find_first_not_of("[0123456789, ]"), std::string::npos) << text;
}

TEST_F(StepTest, BadGrammarsAreRefusedNotFatal) {
  const auto kBad = absl::StatusCode::kInvalidArgument;
  SamplingParams p;
  for (const std::string& grammar :
       {std::string("root ::= ("), std::string("other ::= \"a\""), std::string("root ::= root \"a\""),
        std::string("root ::= missing"), "root ::= " + std::string(5000, '(') + std::string(5000, ')')}) {
    p.grammar = grammar;
    EXPECT_THAT(a().CheckSampling(p), StatusIs(kBad, HasSubstr("grammar"))) << grammar.substr(0, 40);
    EXPECT_THAT(Generate(a(), Text(10), p, 2), StatusIs(kBad));
    TearDown();
  }
  // An output that the grammar does not allow, and one that goes on after its end.
  p.grammar = "root ::= \"yes\" | \"no\"";
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), Text(10), p));
  x.tokens.back() = Text(50)[40];
  EXPECT_THAT(Continue(a(), x, p, 1), StatusIs(kBad, HasSubstr("grammar")));
  x.tokens.back() = a().facts().eos;
  EXPECT_THAT(Continue(a(), x, p, 1), StatusIs(kBad, HasSubstr("after its end")));
  EXPECT_EQ(a().Length(x.seq), 10);
}

TEST_F(StepTest, ForbiddenEndAndReports) {
  ASSERT_OK_AND_ASSIGN(const std::string text, a().ChatPrompt("", "Say only: ok"));
  ASSERT_OK_AND_ASSIGN(const auto prompt, a().Tokenize(text, false, true));
  SamplingParams p;
  p.n_logprobs = 5;
  ASSERT_OK_AND_ASSIGN(const SeqId seq, a().OpenSequence());
  std::vector<Token> tokens = prompt;
  bool ended = false;
  for (int i = 0; i < 60 && !ended; ++i) {
    StepItem item;
    item.seq = seq;
    item.n_past = a().Length(seq);
    item.tokens = std::span(tokens).subspan(static_cast<std::size_t>(item.n_past));
    item.sample = true;
    item.sampling = &p;
    item.history = tokens;
    item.n_prompt = static_cast<int64_t>(prompt.size());
    ASSERT_OK_AND_ASSIGN(const auto drawn, a().Step(std::span(&item, 1)));
    const Sampled& s = drawn.at(0);
    ASSERT_EQ(s.top.size(), 5u);
    EXPECT_EQ(s.top[0].first, s.token);
    EXPECT_FLOAT_EQ(s.top[0].second, s.logprob);
    EXPECT_NEAR(s.margin, s.top[0].second - s.top[1].second, 1e-4);
    EXPECT_LE(s.logprob, 0);
    EXPECT_TRUE(
        std::is_sorted(s.top.rbegin(), s.top.rend(), [](auto& x, auto& y) { return x.second < y.second; }));
    ended = s.end_of_generation;
    if (ended) {
      ASSERT_OK(a().Truncate(seq, item.n_past));
      item.forbid_end = true;
      ASSERT_OK_AND_ASSIGN(const auto other, a().Step(std::span(&item, 1)));
      EXPECT_FALSE(other.at(0).end_of_generation);
      EXPECT_NE(other.at(0).token, s.token);
      EXPECT_EQ(other.at(0).token, s.top[1].first);
    }
    tokens.push_back(s.token);
  }
  EXPECT_TRUE(ended);
}

TEST_F(StepTest, BatchOfSeveralSequences) {
  const SamplingParams greedy;
  std::vector<Stream> together, alone;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(Stream s, StartStream(a(), Text(40 + 17 * i, i), greedy, 512));
    together.push_back(s);
  }
  // The third one waits in the first rounds; a prefill part of a fourth rides along.
  ASSERT_OK_AND_ASSIGN(const SeqId fourth, a().OpenSequence());
  const std::vector<Token> prefill = Text(90, 5);
  for (int round = 0; round < 9; ++round) {
    std::vector<StepItem> items;
    for (int i = 0; i < (round < 3 ? 2 : 3); ++i) {
      Stream& s = together[static_cast<std::size_t>(i)];
      items.push_back({s.seq, a().Length(s.seq), std::span(s.tokens).last(1), true, &greedy, s.tokens,
                       s.n_prompt, false});
    }
    items.push_back(
        {fourth, a().Length(fourth), std::span(prefill).subspan(static_cast<std::size_t>(10 * round), 10)});
    ASSERT_OK_AND_ASSIGN(const auto drawn, a().Step(items));
    ASSERT_EQ(drawn.size(), items.size() - 1);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      together[i].tokens.push_back(drawn[i].token);
      together[i].logprobs.push_back(drawn[i].logprob);
    }
  }
  EXPECT_EQ(a().Length(fourth), 90);
  // Same tokens alone, up to what the layout may change: compare the forced log-probabilities within the
  // stated noise.
  for (int i = 0; i < 3; ++i) {
    const Stream& s = together[static_cast<std::size_t>(i)];
    ASSERT_OK_AND_ASSIGN(const SeqId seq, b().OpenSequence());
    const std::span<const Token> all = s.tokens;
    ASSERT_OK_AND_ASSIGN(const auto nll, b().Score(seq, all.first(all.size() - 1), all.subspan(1)));
    for (std::size_t j = 0; j < s.logprobs.size(); ++j) {
      EXPECT_NEAR(-nll[static_cast<std::size_t>(s.n_prompt) - 1 + j], s.logprobs[j],
                  a().facts().logprob_noise);
    }
    b().CloseSequence(seq);
  }
}

TEST_F(StepTest, ScoreBatchesDoNotShow) {
  // 300 tokens at once, or after a prefill of 128: the same cells, the same numbers from there on.
  const std::vector<Token> text = Text(301);
  const std::span<const Token> tokens = std::span(text).first(300), targets = std::span(text).subspan(1);
  ASSERT_OK_AND_ASSIGN(const SeqId x, a().OpenSequence());
  ASSERT_OK_AND_ASSIGN(const auto whole, a().Score(x, tokens, targets));
  EXPECT_EQ(a().Length(x), 300);
  ASSERT_OK_AND_ASSIGN(const SeqId y, b().OpenSequence());
  ASSERT_OK(Feed(b(), y, {text.begin(), text.begin() + 128}, 128));
  ASSERT_OK_AND_ASSIGN(const auto rest, b().Score(y, tokens.subspan(128), targets.subspan(128)));
  ASSERT_EQ(rest.size(), 172u);
  double mean = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_FLOAT_EQ(rest[i], whole[128 + i]);
    mean += rest[i] / 172.0;
  }
  EXPECT_GT(mean, 0.1);
  EXPECT_LT(mean, 5.0);
  EXPECT_THAT(a().Score(x, tokens, targets.first(3)), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(StepTest, InterruptEndsAStepAndLeavesTheSequences) {
  ASSERT_OK_AND_ASSIGN(const SeqId seq, a().OpenSequence());
  ASSERT_OK(Feed(a(), seq, Text(100), 512));
  ASSERT_OK_AND_ASSIGN(const KvBlock before, a().Export(seq, {0, 100}, Layers()));
  const std::vector<Token> more = Text(512, 2);
  const auto start = std::chrono::steady_clock::now();
  std::thread other([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    a().Interrupt();
  });
  EXPECT_THAT(Feed(a(), seq, more, 512), StatusIs(absl::StatusCode::kCancelled));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  other.join();
  fmt::print("interrupted after {:.3f} s\n", seconds);
  EXPECT_EQ(a().Length(seq), 100);
  EXPECT_EQ(a().CellsUsed(), 100);
  ASSERT_OK_AND_ASSIGN(const KvBlock after, a().Export(seq, {0, 100}, Layers()));
  EXPECT_EQ(before.data, after.data);
  EXPECT_OK(Feed(a(), seq, {more.begin(), more.begin() + 64}));
  a().Interrupt();
  EXPECT_THAT(a().Score(seq, more, more), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(a().Length(seq), 164);
  EXPECT_OK(Feed(a(), seq, {1}));
}

TEST_F(StepTest, TruncatedModelIsRefused) {
  const std::string path = ::testing::TempDir() + "/riskkv_truncated.gguf";
  std::filesystem::copy_file(ModelPath(), path, std::filesystem::copy_options::overwrite_existing);
  LlamaOptions options;
  options.model_path = path;
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t n : {size - 1, size / 2, std::uintmax_t{100000}, std::uintmax_t{20}}) {
    std::filesystem::resize_file(path, n);
    EXPECT_THAT(LlamaEngine::Create(options), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path))) << n;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace riskkv
