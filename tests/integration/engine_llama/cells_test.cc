// Moving cells between sequences and engines.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kernels/fp16.h"
#include "kernels/rope.h"
#include "tests/integration/engine_llama/llama_fixture.h"
#include "tests/testing/paths.h"

namespace riskkv {
namespace {

using ::riskkv::testing::Continue;
using ::riskkv::testing::Feed;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::MoveStream;
using ::riskkv::testing::StartStream;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::Stream;
using ::testing::HasSubstr;

using CellsTest = LlamaTest;

// Lengths around the pieces and tiles, moved in blocks: the same bytes and the same greedy tokens.
TEST_F(CellsTest, AMovedSequenceIsTheSame) {
  const SamplingParams greedy;
  for (const auto& [n, block] :
       std::vector<std::pair<int, int64_t>>{{2, 1}, {7, 3}, {127, 32}, {128, 128}, {129, 64}, {1000, 100}}) {
    ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), Text(n), greedy, 512));
    ASSERT_OK_AND_ASSIGN(Stream y, MoveStream(a(), b(), x, block));
    ASSERT_EQ(b().Length(y.seq), a().Length(x.seq));
    ASSERT_OK_AND_ASSIGN(const KvBlock sent, a().Export(x.seq, {0, a().Length(x.seq)}, Layers()));
    ASSERT_OK_AND_ASSIGN(const KvBlock got, b().Export(y.seq, {0, b().Length(y.seq)}, Layers()));
    ASSERT_EQ(sent.Digest(), got.Digest()) << n;
    ASSERT_OK(Continue(a(), x, greedy, 24));
    ASSERT_OK(Continue(b(), y, greedy, 24));
    EXPECT_EQ(x.tokens, y.tokens) << n << " tokens in blocks of " << block;
    EXPECT_EQ(x.logprobs, y.logprobs) << n;
    a().CloseSequence(x.seq);
    b().CloseSequence(y.seq);
  }
}

// As a move sends it: the body while it decodes, and a tail of any length at the pause. The pieces are 128 cells, so around them.
TEST_F(CellsTest, AnyTailAfterAnyBodyIsTheSame) {
  const SamplingParams greedy;
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), Text(310), greedy, 512));
  const int64_t length = a().Length(x.seq);
  Stream continued = x;
  std::vector<Stream> moved;
  for (const int64_t tail : {0, 1, 2, 31, 32, 33, 64, 127, 128, 129, 200, 255, 256, 257, 300}) {
    SCOPED_TRACE(tail);
    Stream y = x;
    ASSERT_OK_AND_ASSIGN(y.seq, b().OpenSequence());
    for (const TokenRange part : {TokenRange{0, length - tail}, TokenRange{length - tail, length}}) {
      if (part.size() == 0) continue;
      ASSERT_OK_AND_ASSIGN(const KvBlock cells, a().Export(x.seq, part, Layers()));
      ASSERT_OK(b().Append(y.seq, cells));
    }
    ASSERT_OK(Continue(b(), y, greedy, 16));
    b().CloseSequence(y.seq);
    moved.push_back(std::move(y));
  }
  ASSERT_OK(Continue(a(), continued, greedy, 16));
  for (const Stream& y : moved) {
    EXPECT_EQ(y.tokens, continued.tokens);
    EXPECT_EQ(y.logprobs, continued.logprobs);
  }
  a().CloseSequence(x.seq);
}

// Back and forth: after ten moves, with tokens drawn in between on either engine, the same tokens and the same bytes by
// (layer, position) as without a move.
TEST_F(CellsTest, TenMovesLeaveTheSameBytes) {
  constexpr int kMoves = 10, kBetween = 2;
  const SamplingParams greedy;
  for (const auto& [n, block] :
       std::vector<std::pair<int, int64_t>>{{1, 1}, {7, 3}, {127, 32}, {128, 128}, {129, 64}, {1000, 100}}) {
    SCOPED_TRACE(n);
    ASSERT_OK_AND_ASSIGN(Stream stays, StartStream(a(), Text(n), greedy, 512));
    ASSERT_OK_AND_ASSIGN(Stream moves, MoveStream(a(), b(), stays, block));
    ASSERT_OK(Continue(a(), stays, greedy, kMoves * kBetween));
    ASSERT_OK_AND_ASSIGN(const KvBlock want, a().Export(stays.seq, {0, a().Length(stays.seq)}, Layers()));
    a().CloseSequence(stays.seq);
    for (int i = 1; i < kMoves; ++i) {
      LlamaEngine& from = i % 2 == 1 ? b() : a();
      LlamaEngine& to = i % 2 == 1 ? a() : b();
      ASSERT_OK(Continue(from, moves, greedy, kBetween));
      ASSERT_OK_AND_ASSIGN(Stream there, MoveStream(from, to, moves, block));
      ASSERT_OK_AND_ASSIGN(const KvBlock sent, from.Export(moves.seq, {0, from.Length(moves.seq)}, Layers()));
      ASSERT_OK_AND_ASSIGN(const KvBlock got, to.Export(there.seq, {0, to.Length(there.seq)}, Layers()));
      ASSERT_EQ(sent.data, got.data) << "move " << i + 1;
      from.CloseSequence(moves.seq);
      moves = there;
    }
    ASSERT_OK(Continue(a(), moves, greedy, kBetween));
    EXPECT_EQ(moves.tokens, stays.tokens);
    ASSERT_OK_AND_ASSIGN(const KvBlock end, a().Export(moves.seq, {0, a().Length(moves.seq)}, Layers()));
    EXPECT_EQ(end.data, want.data);
    a().CloseSequence(moves.seq);
  }
}

TEST_F(CellsTest, SecondSequenceOfTheSameEngine) {
  const SamplingParams greedy;
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), Text(200), greedy, 512));
  ASSERT_OK_AND_ASSIGN(Stream y, MoveStream(a(), a(), x, 64));
  ASSERT_OK_AND_ASSIGN(const KvBlock one, a().Export(x.seq, {0, 200}, Layers()));
  ASSERT_OK_AND_ASSIGN(const KvBlock two, a().Export(y.seq, {0, 200}, Layers()));
  EXPECT_EQ(one.data, two.data);
  // With the first one gone the second still has its cells.
  a().CloseSequence(x.seq);
  ASSERT_OK_AND_ASSIGN(const KvBlock after, a().Export(y.seq, {0, 200}, Layers()));
  EXPECT_EQ(one.data, after.data);
  EXPECT_EQ(a().CellsUsed(), 200);
}

TEST_F(CellsTest, PartsEqualSlicesOfTheWhole) {
  ASSERT_OK_AND_ASSIGN(const SeqId seq, a().OpenSequence());
  ASSERT_OK(Feed(a(), seq, Text(700), 512));
  ASSERT_OK_AND_ASSIGN(const KvBlock all, a().Export(seq, {0, 700}, Layers()));
  const std::vector<TokenRange> ranges = {{0, 1}, {699, 700}, {0, 128}, {100, 613}, {511, 513}, {300, 300}};
  for (TokenRange r : ranges) {
    for (const std::vector<int>& layers : {std::vector<int>{0, 1, 4, 5}, {29}, {2, 3, 6, 7, 28}}) {
      ASSERT_OK_AND_ASSIGN(const KvBlock part, a().Export(seq, r, layers));
      ASSERT_OK_AND_ASSIGN(const KvBlock want, Slice(all, r, layers));
      ASSERT_EQ(part.data, want.data) << r.begin << ".." << r.end;
    }
  }
}

// Fragmented: two sequences fed in turn, one closed, so that the cells of the next lie in holes and out of
// order.
TEST_F(CellsTest, BytesSurviveFragmentation) {
  ASSERT_OK_AND_ASSIGN(const SeqId source, b().OpenSequence());
  ASSERT_OK(Feed(b(), source, Text(300), 512));
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, b().Export(source, {0, 300}, Layers()));
  ASSERT_OK_AND_ASSIGN(const SeqId one, a().OpenSequence());
  ASSERT_OK_AND_ASSIGN(const SeqId two, a().OpenSequence());
  const std::vector<Token> filler = Text(200, 3);
  for (std::size_t i = 0; i < 200; i += 20) {
    const std::vector<Token> part(filler.begin() + static_cast<std::ptrdiff_t>(i),
                                  filler.begin() + static_cast<std::ptrdiff_t>(i + 20));
    ASSERT_OK(Feed(a(), one, part));
    ASSERT_OK(Feed(a(), two, part));
  }
  ASSERT_OK_AND_ASSIGN(const KvBlock kept, a().Export(two, {0, 200}, Layers()));
  a().CloseSequence(one);
  ASSERT_OK_AND_ASSIGN(const SeqId dest, a().OpenSequence());
  for (int64_t at = 0; at < 300; at += 77) {
    ASSERT_OK_AND_ASSIGN(const KvBlock piece, Slice(cells, {at, std::min<int64_t>(300, at + 77)}, Layers()));
    ASSERT_OK(a().Append(dest, piece));
  }
  ASSERT_OK_AND_ASSIGN(const KvBlock back, a().Export(dest, {0, 300}, Layers()));
  EXPECT_EQ(back.data, cells.data);
  ASSERT_OK_AND_ASSIGN(const KvBlock other, a().Export(two, {0, 200}, Layers()));
  EXPECT_EQ(other.data, kept.data);
}

// Between two steps of other sequences, as the decode loop does it.
TEST_F(CellsTest, PreCopyWhileDecoding) {
  const SamplingParams greedy;
  ASSERT_OK_AND_ASSIGN(Stream x, StartStream(a(), Text(150), greedy, 512));
  Stream y = x;
  ASSERT_OK_AND_ASSIGN(y.seq, b().OpenSequence());
  for (int i = 0; i < 6; ++i) {
    const int64_t from = b().Length(y.seq);
    ASSERT_OK_AND_ASSIGN(const KvBlock cells, a().Export(x.seq, {from, a().Length(x.seq)}, Layers()));
    ASSERT_OK(b().Append(y.seq, cells));
    if (i < 5) {
      ASSERT_OK(Continue(a(), x, greedy, 3));
    }
  }
  y.tokens = x.tokens;
  ASSERT_OK(Continue(a(), x, greedy, 24));
  ASSERT_OK(Continue(b(), y, greedy, 24));
  EXPECT_EQ(x.tokens, y.tokens);
}

TEST_F(CellsTest, ExhaustionChangesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto small, Create(256, 2));
  ASSERT_OK_AND_ASSIGN(const SeqId seq, small->OpenSequence());
  ASSERT_OK(Feed(*small, seq, Text(200), 200));
  EXPECT_THAT(Feed(*small, seq, Text(57), 57), HasReason("NO_BLOCKS"));
  ASSERT_OK_AND_ASSIGN(const SeqId other, small->OpenSequence());
  EXPECT_THAT(small->OpenSequence(), HasReason("NO_SLOT"));
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, small->Export(seq, {0, 57}, Layers()));
  EXPECT_THAT(small->Append(other, cells), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(small->Append(other, cells), HasReason("NO_BLOCKS"));
  const std::vector<Token> text = Text(57);
  EXPECT_THAT(small->Score(other, text, text), HasReason("NO_BLOCKS"));
  EXPECT_EQ(small->Length(other), 0);
  EXPECT_EQ(small->CellsUsed(), 200);
  ASSERT_OK_AND_ASSIGN(const KvBlock fits, small->Export(seq, {0, 56}, Layers()));
  EXPECT_OK(small->Append(other, fits));
  EXPECT_EQ(small->CellsUsed(), 256);
  small->CloseSequence(seq);
  ASSERT_OK(Feed(*small, other, Text(200), 200));
  EXPECT_EQ(small->CellsUsed(), 256);
}

TEST_F(CellsTest, WrongBlocksAreRefused) {
  ASSERT_OK_AND_ASSIGN(const SeqId seq, a().OpenSequence());
  ASSERT_OK(Feed(a(), seq, Text(20)));
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, a().Export(seq, {0, 20}, Layers()));
  EXPECT_THAT(a().Append(seq, cells),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("begins at token 0")));
  ASSERT_OK_AND_ASSIGN(const KvBlock some, Slice(cells, {0, 20}, {0, 1}));
  ASSERT_OK_AND_ASSIGN(const SeqId fresh, a().OpenSequence());
  EXPECT_THAT(a().Append(fresh, some),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 of 30 layers")));
  EXPECT_THAT(a().Export(seq, {0, 21}, Layers()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(a().Export(77, {0, 1}, Layers()), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Squared error of what `block` holds against the oracle's rows, relative to their norm, in one layer.
double RelativeError(const float* got, const float* want, std::size_t n) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return error / norm;
}

// llama.cpp's keys turned back, and its values, are those of an independent implementation (numpy, float32).
TEST_F(CellsTest, KeysBeforeRopeAgreeWithTheOracle) {
  const char* shared = std::getenv("RISKKV_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "RISKKV_SHARED is not set";
  const char* python = std::getenv("RISKKV_PYTHON");
  const std::string interpreter = python == nullptr ? "python3" : python;
  if (std::system((interpreter + " -c 'import numpy, gguf' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no numpy or gguf";
  constexpr int kTokens = 200;
  ASSERT_OK_AND_ASSIGN(const SeqId seq, a().OpenSequence());
  const std::vector<Token> tokens = Text(kTokens);
  ASSERT_OK(Feed(a(), seq, tokens, 512));
  const std::string base = ::testing::TempDir() + "/riskkv_oracle";
  std::ofstream(base + ".in", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), kTokens * sizeof(Token));
  const std::string command =
      fmt::format("{} {}/tests/integration/engine_llama/oracle_kv.py {}/reference {} {}.in {}.out",
                  interpreter, testing::SourceDir(), shared, ModelPath(), base, base);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;

  const KvLayout& layout = a().facts().fingerprint.layout;
  const std::size_t row = static_cast<std::size_t>(layout.kv());
  const std::size_t n = kTokens * row;
  std::vector<float> want(static_cast<std::size_t>(layout.n_layer) * 2 * n);
  std::ifstream in(base + ".out", std::ios::binary);
  in.read(reinterpret_cast<char*>(want.data()), static_cast<std::streamsize>(want.size() * sizeof(float)));
  ASSERT_TRUE(in);
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, a().Export(seq, {0, kTokens}, Layers()));
  double worst_k = 0, worst_v = 0;
  std::vector<float> k(n), v(n);
  for (int l = 0; l < layout.n_layer; ++l) {
    kernels::HalfToFloat(cells.k(l), k.data(), n);
    kernels::HalfToFloat(cells.v(l), v.data(), n);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < layout.n_head_kv; ++h) {
        float* head =
            k.data() + static_cast<std::size_t>(t) * row + static_cast<std::size_t>(h * layout.head_dim);
        for (int i = 0; i < layout.rope.rotary_dim / 2; ++i) {
          int lo, hi;
          kernels::RopePairDims(layout.rope.pairing, layout.rope.rotary_dim, i, &lo, &hi);
          const double angle = kernels::RopeAngle(t, kernels::RopeFrequency(layout.rope, i));
          kernels::RopeInverse(static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)),
                               head + lo, head + hi);
        }
      }
    }
    const float* oracle = want.data() + static_cast<std::size_t>(l) * 2 * n;
    worst_k = std::max(worst_k, RelativeError(k.data(), oracle, n));
    worst_v = std::max(worst_v, RelativeError(v.data(), oracle + n, n));
  }
  RecordProperty("worst_k", std::to_string(worst_k));
  fmt::print("relative squared error against the oracle: keys {:.2e}, values {:.2e}\n", worst_k, worst_v);
  EXPECT_LT(worst_k, 1e-3);
  EXPECT_LT(worst_v, 1e-2);
}

}  // namespace
}  // namespace riskkv
