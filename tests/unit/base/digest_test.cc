#include "common/base/digest.h"

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "gtest/gtest.h"

namespace riskkv {
namespace {

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, StreamingEqualsWhole) {
  std::string text(100000, 'x');
  Sha256 sha;
  for (std::size_t i = 0; i < text.size(); i += 777) sha.Update(std::string_view(text).substr(i, 777));
  EXPECT_EQ(sha.HexDigest(), Sha256Hex(text));
}

TEST(Sha256, FileEqualsItsBytesAndAMissingFileIsNamed) {
  std::string path = testing::TempDir() + "/digest_test";
  std::ofstream(path, std::ios::binary) << "abc";
  EXPECT_EQ(*Sha256File(path), Sha256Hex("abc"));
  std::remove(path.c_str());
  auto missing = Sha256File(path);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("digest_test"), absl::string_view::npos);
}

TEST(Ids, AreUniqueAndCarryTheBootId) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(NewBootId());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(NewRequestId("0123456789abcdef").rfind("0123456789abcdef-", 0), 0u);
}

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  auto t0 = clock.Monotonic();
  clock.Advance(absl::Milliseconds(5));
  EXPECT_EQ(clock.Monotonic() - t0, absl::Milliseconds(5));
  EXPECT_EQ(clock.Now() - absl::UnixEpoch(), absl::Milliseconds(5));
}

}  // namespace
}  // namespace riskkv
