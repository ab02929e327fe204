#include <cmath>
#include <functional>
#include <set>

#include "common/engine/checks.h"
#include "common/engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(SamplingParamsTest, DefaultsAreValid) { EXPECT_OK(SamplingParams().Validate()); }

TEST(SamplingParamsTest, EveryBoundNamesItsField) {
  struct Case {
    const char* field;
    std::function<void(SamplingParams&)> apply;
  };
  const Case cases[] = {
      {"temperature", [](SamplingParams& p) { p.temperature = -0.1f; }},
      {"temperature", [](SamplingParams& p) { p.temperature = NAN; }},
      {"temperature", [](SamplingParams& p) { p.temperature = INFINITY; }},
      {"top_k", [](SamplingParams& p) { p.top_k = -1; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 0; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 1.01f; }},
      {"top_p", [](SamplingParams& p) { p.top_p = NAN; }},
      {"min_p", [](SamplingParams& p) { p.min_p = 1; }},
      {"min_p", [](SamplingParams& p) { p.min_p = -0.5f; }},
      {"repeat_penalty", [](SamplingParams& p) { p.repeat_penalty = 0; }},
      {"repeat_penalty", [](SamplingParams& p) { p.repeat_penalty = NAN; }},
      {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = INFINITY; }},
      {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = -1000; }},
      {"penalty_last_n", [](SamplingParams& p) { p.penalty_last_n = -1; }},
      {"n_logprobs", [](SamplingParams& p) { p.n_logprobs = 21; }},
      {"grammar", [](SamplingParams& p) { p.grammar = std::string(100000, 'x'); }},
  };
  for (const Case& c : cases) {
    SamplingParams params;
    c.apply(params);
    EXPECT_THAT(params.Validate(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.field)));
  }
}

TEST(MixSeedTest, NeighboursDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (uint64_t index = 0; index < 100; ++index) EXPECT_TRUE(seen.insert(MixSeed(seed, index)).second);
  }
}

}  // namespace
}  // namespace riskkv
