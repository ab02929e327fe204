#include "common/quality/rivals.h"

#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "common/quality/quantize.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

class RivalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create({}));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_).ok());
    ASSERT_OK_AND_ASSIGN(set_, MakeSelectionSet(engine_->facts(), {4, 16}));
    ASSERT_OK_AND_ASSIGN(uploaded_, UploadedSet::Create(*backend_, *set_));
    std::vector<Token> tokens;
    for (int i = 0; i < 99; ++i) tokens.push_back(i);
    WindowScorer scorer(*engine_);
    ASSERT_OK_AND_ASSIGN(exact_, scorer.Prefill(tokens));
  }
  PolicyContext context() { return {*backend_, uploaded_->handle(), *set_, {4, 16}, 99}; }
  // Layers and tokens whose cells differ from the exact ones.
  bool Differs(const KvBlock& cache, int layer, int64_t from, int64_t to) const {
    const std::size_t kv = static_cast<std::size_t>(exact_.kv), a = static_cast<std::size_t>(from) * kv, b = static_cast<std::size_t>(to) * kv;
    return !std::equal(exact_.k(layer) + a, exact_.k(layer) + b, cache.k(layer) + a) ||
           !std::equal(exact_.v(layer) + a, exact_.v(layer) + b, cache.v(layer) + a);
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<kernels::Backend> backend_;
  std::shared_ptr<const PredictorSet> set_;
  std::unique_ptr<UploadedSet> uploaded_;
  KvBlock exact_;
};

// 10 layers of 4 elements in K and V, 99 cells of which 20 are ends.
TEST_F(RivalsTest, BytesAreTheTrueOnes) {
  const int64_t full = 99 * 10 * 2 * 4 * 2, middle = 79 * 10 * 2 * 4 * 2, ends = full - middle;
  const CachePolicy int8 = Int8Policy(context());
  EXPECT_EQ(int8.full_bytes, full);
  EXPECT_EQ(int8.sent_bytes, 99 * 10 * 2 * (4 + 2)) << "no ends: every head of 4 has a scale";
  const CachePolicy int4 = Int4Policy(context(), 32);
  EXPECT_EQ(int4.middle_full, middle);
  // 4 channels of 79 tokens: groups of 32, 32 and 15; each token's 4 values are one group.
  EXPECT_EQ(int4.sent_bytes, ends + 10 * (4 * (20 + 20 + 12) + 79 * 6));
  const CachePolicy omitted = OmissionPolicy(context(), {0});
  EXPECT_EQ(omitted.sent_bytes, full - 79 * 2 * 16);
  const CachePolicy both = Int8OmissionPolicy(context(), {0, 1});
  EXPECT_EQ(both.sent_bytes, ends + Int8Bytes(set_->layout(), 79, 6));
  EXPECT_LT(both.sent_bytes, omitted.sent_bytes);
}

TEST_F(RivalsTest, EndsAreExactAndTheRestIsWhatIsDecoded) {
  ASSERT_OK_AND_ASSIGN(const KvBlock int4, Int4Policy(context(), 32).decode(exact_));
  ASSERT_OK_AND_ASSIGN(const KvBlock omitted, OmissionPolicy(context(), {0}).decode(exact_));
  ASSERT_OK_AND_ASSIGN(const KvBlock both, Int8OmissionPolicy(context(), {0}).decode(exact_));
  for (int l = 0; l < 10; ++l) {
    for (const KvBlock* cache : {&int4, &omitted, &both}) {
      EXPECT_FALSE(Differs(*cache, l, 0, 4)) << l;
      EXPECT_FALSE(Differs(*cache, l, 83, 99)) << l;
    }
    EXPECT_TRUE(Differs(int4, l, 4, 83)) << l;
    EXPECT_FALSE(Differs(omitted, l, 4, 83)) << "the fake's targets are copies of its anchors";
    EXPECT_TRUE(Differs(both, l, 4, 83)) << "int8 anchors, and what is predicted from them";
  }
  ASSERT_OK_AND_ASSIGN(const KvBlock int8, Int8Policy(context()).decode(exact_));
  EXPECT_TRUE(Differs(int8, 0, 0, 4));
}

TEST_F(RivalsTest, KeysTellPoliciesApart) {
  std::vector<std::string> keys;
  for (const CachePolicy& p : {Int8Policy(context()), Int4Policy(context(), 32), Int4Policy(context(), 64),
                               OmissionPolicy(context(), {0}), OmissionPolicy(context(), {1}), Int8OmissionPolicy(context(), {0})})
    keys.push_back(p.key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

}  // namespace
}  // namespace riskkv
