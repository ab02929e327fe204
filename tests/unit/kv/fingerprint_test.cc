#include <cmath>
#include <functional>
#include <set>

#include "common/kv/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Fingerprint Base() {
  Fingerprint f;
  f.architecture = "llama";
  f.weights_digest = "w0";
  f.tokenizer_digest = "t0";
  f.layout.n_layer = 30;
  f.layout.n_head_kv = 3;
  f.layout.head_dim = 64;
  f.layout.rope.pairing = kernels::RopePairing::kNeighbours;
  f.layout.rope.rotary_dim = 64;
  f.layout.rope.freq_factors.assign(32, 1.0f);
  return f;
}

struct Change {
  const char* field;
  const char* reason;
  const char* value;  // as the message says it
  std::function<void(Fingerprint&)> apply;
};

const Change kChanges[] = {
    {"layout_version", "PROTOCOL_VERSION", "2", [](Fingerprint& f) { f.layout_version = 2; }},
    {"architecture", "MODEL_MISMATCH", "qwen2", [](Fingerprint& f) { f.architecture = "qwen2"; }},
    {"weights_digest", "MODEL_MISMATCH", "w1", [](Fingerprint& f) { f.weights_digest = "w1"; }},
    {"tokenizer_digest", "MODEL_MISMATCH", "t1", [](Fingerprint& f) { f.tokenizer_digest = "t1"; }},
    {"n_layer", "MODEL_MISMATCH", "31", [](Fingerprint& f) { f.layout.n_layer = 31; }},
    {"n_head_kv", "MODEL_MISMATCH", "4", [](Fingerprint& f) { f.layout.n_head_kv = 4; }},
    {"head_dim", "MODEL_MISMATCH", "128", [](Fingerprint& f) { f.layout.head_dim = 128; }},
    {"cache_type", "DTYPE_MISMATCH", "q8_0", [](Fingerprint& f) { f.cache_type = "q8_0"; }},
    {"rope.pairing", "ROPE_MISMATCH", "halves",
     [](Fingerprint& f) { f.layout.rope.pairing = kernels::RopePairing::kHalves; }},
    {"rope.rotary_dim", "ROPE_MISMATCH", "32", [](Fingerprint& f) { f.layout.rope.rotary_dim = 32; }},
    {"rope.freq_base", "ROPE_MISMATCH", "100000",
     [](Fingerprint& f) { f.layout.rope.freq_base = 100000.0f; }},
    {"rope.freq_scale", "ROPE_MISMATCH", "0.5", [](Fingerprint& f) { f.layout.rope.freq_scale = 0.5f; }},
    {"rope.freq_factors", "ROPE_MISMATCH", "32 factors",
     [](Fingerprint& f) { f.layout.rope.freq_factors[31] = 8.0f; }},
    {"rope.freq_factors", "ROPE_MISMATCH", "none",
     [](Fingerprint& f) { f.layout.rope.freq_factors.clear(); }},
};

TEST(FingerprintTest, EqualOnesAreCompatible) { EXPECT_OK(CheckCompatible(Base(), Base())); }

TEST(FingerprintTest, EveryFieldIsComparedAndNamed) {
  for (const Change& change : kChanges) {
    Fingerprint other = Base();
    change.apply(other);
    const absl::Status forth = CheckCompatible(Base(), other);
    EXPECT_THAT(forth, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr(change.field), HasSubstr(change.value))));
    EXPECT_THAT(forth, HasReason(change.reason));
    EXPECT_THAT(CheckCompatible(other, Base()), HasReason(change.reason));
  }
}

TEST(FingerprintTest, EveryFieldChangesTheDigest) {
  std::set<std::string> digests = {FingerprintDigest(Base())};
  for (const Change& change : kChanges) {
    Fingerprint other = Base();
    change.apply(other);
    EXPECT_TRUE(digests.insert(FingerprintDigest(other)).second) << change.field;
  }
}

TEST(FingerprintTest, SmallestFloatDifferenceCounts) {
  Fingerprint other = Base();
  other.layout.rope.freq_base = std::nextafter(other.layout.rope.freq_base, 1e9f);
  EXPECT_THAT(CheckCompatible(Base(), other), HasReason("ROPE_MISMATCH"));
}

TEST(FingerprintTest, ProtocolRangesMustMeet) {
  Fingerprint a = Base(), b = Base();
  a.protocol_min = 1, a.protocol_max = 2;
  b.protocol_min = 2, b.protocol_max = 5;
  EXPECT_OK(CheckCompatible(a, b));
  EXPECT_EQ(FingerprintDigest(a), FingerprintDigest(b));
  b.protocol_min = 3;
  EXPECT_THAT(CheckCompatible(a, b),
              StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr("1..2"), HasSubstr("3..5"))));
  EXPECT_THAT(CheckCompatible(b, a), HasReason("PROTOCOL_VERSION"));
}

}  // namespace
}  // namespace riskkv
