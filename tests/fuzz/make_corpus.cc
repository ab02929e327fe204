// Writes the seed corpora: make_corpus tests/fuzz/corpus. Deterministic; run it again when a format changes.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/engine/fake/fake_engine.h"
#include "common/engine/llama/state_format.h"
#include "common/migration/record_json.h"
#include "common/predictor/selection_set.h"
#include "tests/fuzz/coded_block_seed.h"

namespace riskkv {
namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void PredictorSets(const std::filesystem::path& root) {
  auto engine = FakeEngine::Create(FakeOptions{});
  if (!engine.ok()) return;
  for (auto type : {kernels::WeightType::kF32, kernels::WeightType::kF16}) {
    auto bytes = SelectionSetBytes((*engine)->facts(), {}, type);
    if (bytes.ok()) Write(root / "predictor_set" / (type == kernels::WeightType::kF32 ? "f32" : "f16"), *bytes);
  }
}

void Records(const std::filesystem::path& root) {
  OwnerRecord owner;
  owner.request_id = "b-1";
  Write(root / "record" / "owner", Serialise(owner));
  Write(root / "record" / "job", Serialise(JobRecord{}));
}

void LlamaStates(const std::filesystem::path& root) {
  KvLayout layout;
  layout.n_layer = 3;
  layout.n_head_kv = 1;
  layout.head_dim = 4;
  for (int n = 1; n <= 4; ++n) {
    const TokenRange range{5, 5 + n};
    KvBlock block = KvBlock::Make(layout, range, {0, 1, 2});
    std::vector<uint8_t> state;
    WriteLlamaState(layout, block, range, state);
    std::string bytes(1, static_cast<char>(n - 1));
    Write(root / "llama_state" / std::to_string(n), bytes + std::string(state.begin(), state.end()));
  }
}

void CodedBlocks(const std::filesystem::path& root) {
  const auto codec = CodedBlockSeed();
  const auto policy = codec->MakePolicy(kCodedSeedStep);
  CodecScratch scratch;
  for (int n : {1, 3, 6}) {
    KvBlock block = KvBlock::Make(codec->layout(), {7, 7 + n}, AllLayers(codec->layout()));
    uint32_t state = 5;
    // Values of one at most, and now and then one that escapes the tables.
    for (uint16_t& v : block.data) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<uint16_t>((state >> 30 == 3 ? 0x5000 : 0x3000) | (state >> 31 << 15) | (state >> 20 & 0x3ff));
    }
    auto bytes = codec->Encode(*policy, block, scratch);
    if (bytes.ok()) Write(root / "coded_block" / std::to_string(n), *bytes);
  }
}

}  // namespace
}  // namespace riskkv

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  riskkv::PredictorSets(argv[1]);
  riskkv::Records(argv[1]);
  riskkv::LlamaStates(argv[1]);
  riskkv::CodedBlocks(argv[1]);
  return 0;
}
