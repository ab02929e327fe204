// What the tests of this folder share: the model of RISKKV_MODEL (skipped without) and two engines, loaded
// once.
#ifndef RISKKV_TESTS_INTEGRATION_ENGINE_LLAMA_LLAMA_FIXTURE_H_
#define RISKKV_TESTS_INTEGRATION_ENGINE_LLAMA_LLAMA_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/engine/llama/llama_engine.h"
#include "gtest/gtest.h"
#include "tests/testing/engine_driver.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {

class LlamaTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCells = 4096;
  static constexpr int kSequences = 4;

  void SetUp() override;
  // Leaves both engines empty.
  void TearDown() override;

  static std::string ModelPath();
  static absl::StatusOr<std::unique_ptr<LlamaEngine>> Create(int64_t cells, int sequences);
  // The first `n` tokens of a plain English text, begin-of-text included.
  std::vector<Token> Text(int n, int variant = 0);
  std::vector<int> Layers() { return AllLayers(a().facts().fingerprint.layout); }

  LlamaEngine& a() { return *a_; }
  LlamaEngine& b() { return *b_; }

 private:
  static std::unique_ptr<LlamaEngine> a_;
  static std::unique_ptr<LlamaEngine> b_;
};

}  // namespace riskkv

#endif  // RISKKV_TESTS_INTEGRATION_ENGINE_LLAMA_LLAMA_FIXTURE_H_
