#include "tests/integration/engine_llama/llama_fixture.h"

#include <cstdlib>

#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr const char* kSentences[] = {
    "The harbour was quiet that morning, and the fishermen mended their nets on the stone steps. ",
    "A letter had arrived from the capital, sealed with blue wax, but nobody dared to open it. ",
    "She counted the coins twice before she put them back into the wooden box under the stairs. ",
    "Far above the valley a single light moved slowly along the ridge, as if someone were searching. ",
    "The engineers had measured the bridge in summer and found that the iron had grown by a hand. ",
    "In the library of the old university the clocks were stopped every evening at nine. ",
    "Nothing in the report explained why the river had changed its course within one night. ",
};

}  // namespace

std::unique_ptr<LlamaEngine> LlamaTest::a_;
std::unique_ptr<LlamaEngine> LlamaTest::b_;

std::string LlamaTest::ModelPath() {
  const char* path = std::getenv("RISKKV_MODEL");
  return path == nullptr ? "" : path;
}

absl::StatusOr<std::unique_ptr<LlamaEngine>> LlamaTest::Create(int64_t cells, int sequences) {
  LlamaOptions options;
  options.model_path = ModelPath();
  options.n_cells = cells;
  options.n_sequences = sequences;
  options.threads = 1;
  return LlamaEngine::Create(options);
}

void LlamaTest::SetUp() {
  if (ModelPath().empty()) GTEST_SKIP() << "RISKKV_MODEL is not set";
  if (a_ == nullptr) {
    ASSERT_OK_AND_ASSIGN(a_, Create(kCells, kSequences));
    ASSERT_OK_AND_ASSIGN(b_, Create(kCells, kSequences));
  }
}

void LlamaTest::TearDown() {
  for (const auto& engine : {a_.get(), b_.get()}) {
    if (engine == nullptr) continue;
    for (SeqId s = 0; s < kSequences; ++s) engine->CloseSequence(s);
    EXPECT_EQ(engine->CellsUsed(), 0);
  }
}

std::vector<Token> LlamaTest::Text(int n, int variant) {
  std::string text;
  for (int i = 0; static_cast<int>(text.size()) < 8 * n + 200; ++i) {
    const int k = (i * 3 + variant * 5 + i / 7) % 7;
    text += i % 5 == 0 ? fmt::format("Chapter {}. ", i + variant) : "";
    text += kSentences[k];
  }
  std::vector<Token> tokens = a().Tokenize(text, /*add_special=*/true, /*parse_special=*/false).value();
  EXPECT_GE(static_cast<int>(tokens.size()), n);
  tokens.resize(static_cast<std::size_t>(n));
  return tokens;
}

}  // namespace riskkv
