#include "common/engine/llama/model_support.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/engine/llama/llama_engine.h"
#include "common/engine/llama/log.h"
#include "gguf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A GGUF with the metadata of a small model and one tensor; no weights.
class GgufBuilder {
 public:
  explicit GgufBuilder(const char* arch = "llama") : arch_(arch), gguf_(gguf_init_empty()) {
    gguf_set_val_str(gguf_, "general.architecture", arch);
    U32(".block_count", 30);
    U32(".embedding_length", 576);
    U32(".attention.head_count", 9);
    U32(".attention.head_count_kv", 3);
    F32(".rope.freq_base", 100000.0f);
    const char* tokens[] = {"a", "b", "<eos>"};
    gguf_set_arr_str(gguf_, "tokenizer.ggml.tokens", tokens, 3);
  }
  ~GgufBuilder() { gguf_free(gguf_); }

  GgufBuilder& U32(const std::string& key, uint32_t v) {
    gguf_set_val_u32(gguf_, (arch_ + key).c_str(), v);
    return *this;
  }
  GgufBuilder& F32(const std::string& key, float v) {
    gguf_set_val_f32(gguf_, (arch_ + key).c_str(), v);
    return *this;
  }
  GgufBuilder& Str(const std::string& key, const char* v) {
    gguf_set_val_str(gguf_, (arch_ + key).c_str(), v);
    return *this;
  }
  gguf_context* get() { return gguf_; }

  // Written to a file of this test's own. `tensor` names an F32 tensor of 32 halves-to-one values.
  std::string Write(const char* tensor = "token_embd.weight") {
    const std::string path = ::testing::TempDir() + "/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
    ggml_context* context = ggml_init({ggml_tensor_overhead() + 4096, nullptr, false});
    ggml_tensor* t = ggml_new_tensor_1d(context, GGML_TYPE_F32, 32);
    for (int i = 0; i < 32; ++i) static_cast<float*>(t->data)[i] = 0.5f + static_cast<float>(i) / 64.0f;
    ggml_set_name(t, tensor);
    gguf_add_tensor(gguf_, t);
    gguf_write_to_file(gguf_, path.c_str(), false);
    ggml_free(context);
    return path;
  }
  absl::StatusOr<ModelFacts> Read(const char* tensor = "token_embd.weight") {
    auto file = GgufFile::Open(Write(tensor));
    if (!file.ok()) return file.status();
    return ReadModelFacts(*file);
  }

 private:
  std::string arch_;
  gguf_context* gguf_;
};

TEST(ModelSupportTest, ReadsLayoutAndRope) {
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, GgufBuilder().Read());
  const KvLayout& layout = facts.fingerprint.layout;
  EXPECT_EQ(layout.n_layer, 30);
  EXPECT_EQ(layout.n_head_kv, 3);
  EXPECT_EQ(layout.head_dim, 64);
  EXPECT_EQ(layout.rope.pairing, kernels::RopePairing::kNeighbours);
  EXPECT_EQ(layout.rope.rotary_dim, 64);
  EXPECT_EQ(layout.rope.freq_base, 100000.0f);
  EXPECT_EQ(layout.rope.freq_scale, 1.0f);
  EXPECT_TRUE(layout.rope.freq_factors.empty());
}

TEST(ModelSupportTest, QwenTurnsHalves) {
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, GgufBuilder("qwen2").Read());
  EXPECT_EQ(facts.fingerprint.layout.rope.pairing, kernels::RopePairing::kHalves);
}

TEST(ModelSupportTest, KeyLengthMayDifferFromEmbeddingOverHeads) {
  GgufBuilder builder;
  builder.U32(".attention.key_length", 128).U32(".attention.value_length", 128);
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, builder.Read());
  EXPECT_EQ(facts.fingerprint.layout.head_dim, 128);
}

TEST(ModelSupportTest, LinearScalingAndFrequencyFactors) {
  GgufBuilder builder;
  builder.Str(".rope.scaling.type", "linear").F32(".rope.scaling.factor", 4.0f);
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, builder.Read("rope_freqs.weight"));
  EXPECT_EQ(facts.fingerprint.layout.rope.freq_scale, 0.25f);
  ASSERT_EQ(facts.fingerprint.layout.rope.freq_factors.size(), 32u);
  EXPECT_EQ(facts.fingerprint.layout.rope.freq_factors[1], 0.5f + 1.0f / 64.0f);
  GgufBuilder none;
  none.Str(".rope.scaling.type", "none").F32(".rope.scaling.factor", 4.0f);
  ASSERT_OK_AND_ASSIGN(const ModelFacts unscaled, none.Read());
  EXPECT_EQ(unscaled.fingerprint.layout.rope.freq_scale, 1.0f);
}

TEST(ModelSupportTest, RefusesByName) {
  const auto kNo = absl::StatusCode::kFailedPrecondition;
  auto refused = [&](GgufBuilder& b, const char* name) {
    EXPECT_THAT(b.Read(), StatusIs(kNo, AllOf(HasSubstr(name), HasSubstr(".gguf"))));
  };
  GgufBuilder gemma("gemma3");
  refused(gemma, "gemma3");
  GgufBuilder window;
  refused(window.U32(".attention.sliding_window", 4096), "sliding window");
  GgufBuilder mla;
  refused(mla.U32(".attention.kv_lora_rank", 512), "MLA");
  GgufBuilder mamba("mamba");
  refused(mamba.U32(".ssm.state_size", 16), "recurrent");
  for (const char* kind : {"yarn", "longrope", "anything"}) {
    GgufBuilder scaled;
    refused(scaled.Str(".rope.scaling.type", kind), kind);
  }
  GgufBuilder magnitude;
  refused(magnitude.F32(".rope.scaling.attn_factor", 1.2f), "magnitude");
  GgufBuilder partial;
  refused(partial.U32(".rope.dimension_count", 32), "partial rotary");
  GgufBuilder uneven;
  refused(uneven.U32(".attention.key_length", 128), "keys of 128");
  GgufBuilder split;
  gguf_set_val_u16(split.get(), "split.count", 3);
  refused(split, "split");
  GgufBuilder variable;
  const uint32_t heads[] = {3, 3, 1};
  gguf_set_arr_data(variable.get(), "llama.attention.head_count_kv", GGUF_TYPE_UINT32, heads, 3);
  refused(variable, "head_count_kv");
}

TEST(ModelSupportTest, ImpossibleNumbers) {
  const auto kBad = absl::StatusCode::kInvalidArgument;
  for (uint32_t layers : {0u, 513u, 4000000000u}) {
    GgufBuilder b;
    EXPECT_THAT(b.U32(".block_count", layers).Read(), StatusIs(kBad, HasSubstr("block_count")));
  }
  GgufBuilder heads;
  EXPECT_THAT(heads.U32(".attention.head_count", 0).Read(), StatusIs(kBad, HasSubstr("head_count")));
  GgufBuilder base;
  EXPECT_THAT(base.F32(".rope.freq_base", NAN).Read(), StatusIs(kBad, HasSubstr("rope")));
}

TEST(ModelSupportTest, TokenizerDigestSeesTheVocabulary) {
  GgufBuilder a, b;
  const char* tokens[] = {"a", "c", "<eos>"};
  gguf_set_arr_str(b.get(), "tokenizer.ggml.tokens", tokens, 3);
  ASSERT_OK_AND_ASSIGN(const ModelFacts x, a.Read());
  ASSERT_OK_AND_ASSIGN(const ModelFacts y, b.Read());
  EXPECT_NE(x.fingerprint.tokenizer_digest, y.fingerprint.tokenizer_digest);
}

TEST(GgufFileTest, DamagedFilesAreNamed) {
  const std::string path = GgufBuilder().Write();
  const auto size = std::filesystem::file_size(path);
  EXPECT_OK(GgufFile::Open(path));
  EXPECT_THAT(GgufFile::Open("/nowhere/x.gguf"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x.gguf")));
  EXPECT_THAT(GgufFile::Open("/"), StatusIs(absl::StatusCode::kNotFound));
  // Every cut: never a crash, never accepted, always named.
  for (std::uintmax_t n = size - 1; n > 0; n = n > 600 ? n - 97 : n - 1) {
    std::filesystem::resize_file(path, n);
    const absl::Status status = GgufFile::Open(path).status();
    ASSERT_THAT(status, StatusIs(n < 4 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss,
                                 HasSubstr(path)))
        << n;
  }
  std::ofstream(path) << "this is not a model";
  EXPECT_THAT(GgufFile::Open(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a GGUF")));
}

// Any damage to the header is refused or read as other values; it never ends the process.
TEST(GgufFileTest, FlippedBytesAreContained) {
  const std::string path = GgufBuilder().Write();
  std::string good(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(good.data(), static_cast<std::streamsize>(good.size()));
  std::mt19937 rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 2; ++i) bad[4 + rng() % (bad.size() - 4 - 128)] = static_cast<char>(rng());
    std::ofstream(path, std::ios::binary).write(bad.data(), static_cast<std::streamsize>(bad.size()));
    const auto file = GgufFile::Open(path);
    if (file.ok()) (void)ReadModelFacts(*file);
  }
}

TEST(LlamaEngineOptionsTest, BadOptionsAreRefused) {
  const auto kBad = absl::StatusCode::kInvalidArgument;
  LlamaOptions o;
  o.model_path = "x";
  o.n_sequences = 255;
  EXPECT_THAT(LlamaEngine::Create(o), StatusIs(kBad, HasSubstr("n_sequences")));
  o = {};
  o.threads = 0;
  EXPECT_THAT(LlamaEngine::Create(o), StatusIs(kBad, HasSubstr("threads")));
  o = {};
  o.score_batch = 32;
  EXPECT_THAT(LlamaEngine::Create(o), StatusIs(kBad, HasSubstr("score_batch")));
  o = {};
  o.n_cells = 0;
  EXPECT_THAT(LlamaEngine::Create(o), StatusIs(kBad, HasSubstr("n_cells")));
}

// Metadata is fine, weights are missing: llama.cpp itself refuses, and its reason comes along.
TEST(LlamaEngineOptionsTest, ModelWithoutWeights) {
  LlamaOptions o;
  o.model_path = GgufBuilder().Write();
  EXPECT_THAT(LlamaEngine::Create(o), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr(o.model_path), HasSubstr("refuses"))));
}

}  // namespace
}  // namespace riskkv
