#include "services/worker/core/request_text.h"

#include <random>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

constexpr char kBad[] = "\xEF\xBF\xBD";

// Token i says pieces[i].
std::unique_ptr<ScriptedEngine> Saying(const std::vector<std::string>& pieces) {
  auto engine = std::make_unique<ScriptedEngine>(FakeOptions{});
  for (std::size_t i = 0; i < pieces.size(); ++i) engine->texts[static_cast<Token>(i)] = pieces[i];
  return engine;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& p : parts) out += p;
  return out;
}

// What each piece releases, then the tail.
std::vector<std::string> Assemble(const std::vector<std::string>& pieces, const std::vector<std::string>& stop, int min_tokens = 0) {
  auto engine = Saying(pieces);
  TextAssembler text(engine.get(), stop, min_tokens);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < pieces.size() && !text.stopped(); ++i) out.push_back(text.Push(static_cast<Token>(i)));
  out.push_back(text.TakeTail());
  return out;
}

using Parts = std::vector<std::string>;

TEST(Utf8Stream, HoldsBackUnfinishedCharacters) {
  Utf8Stream s;
  EXPECT_EQ(s.Push("a\xE2"), "a");
  EXPECT_EQ(s.Push("\x82"), "");
  EXPECT_EQ(s.Push("\xAC!"), "\xE2\x82\xAC!");
  EXPECT_EQ(s.Push("\xF0\x9F\x98"), "");
  EXPECT_EQ(s.Flush(), kBad);
  EXPECT_EQ(s.Flush(), "");
}

TEST(Utf8Stream, ReplacesWhatIsNoCharacter) {
  Utf8Stream s;
  EXPECT_EQ(s.Push("\x80" "a"), std::string(kBad) + "a");
  EXPECT_EQ(s.Push("\xC0\xAF"), std::string(kBad) + kBad) << "overlong";
  EXPECT_EQ(s.Push("\xED\xA0\x80"), std::string(kBad) + kBad + kBad) << "surrogate";
  EXPECT_EQ(s.Push("\xE2\x82" "b"), std::string(kBad) + "b") << "cut short";
  EXPECT_EQ(s.Push("\xF5"), kBad);
}

TEST(Utf8Stream, CutsDoNotMatter) {
  std::mt19937 rng(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += static_cast<char>(rng() % 4 ? "\xE2\x82\xAC\xF0\x9F\x98\x80 az"[rng() % 10] : rng() % 256);
    Utf8Stream whole, pieces;
    std::string want = whole.Push(bytes);
    want += whole.Flush();
    std::string got;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = 1 + rng() % 5;
      got += pieces.Push(std::string_view(bytes).substr(at, n));
      EXPECT_TRUE(IsUtf8(got));
      at += n;
    }
    got += pieces.Flush();
    EXPECT_EQ(got, want);
  }
}

TEST(TextAssembler, ReleasesAtOnceWithoutStopStrings) {
  EXPECT_EQ(Assemble({"ab", "c", ""}, {}), (Parts{"ab", "c", "", ""}));
}

TEST(TextAssembler, StopStringInOneToken) { EXPECT_EQ(Assemble({"abENDcd", "x"}, {"END"}), (Parts{"ab", ""})); }

TEST(TextAssembler, StopStringAcrossTokens) {
  EXPECT_EQ(Assemble({"aE", "N", "Dz", "never"}, {"END"}), (Parts{"a", "", "", ""}));
}

TEST(TextAssembler, HeldTextIsReleasedWhenItIsNoStop) {
  EXPECT_EQ(Assemble({"aE", "N", "x"}, {"END"}), (Parts{"a", "", "ENx", ""}));
  EXPECT_EQ(Assemble({"EE", "ND"}, {"END"}), (Parts{"E", "", ""})) << "the second E begins it";
}

TEST(TextAssembler, TailIsWhatWasHeldAtTheEnd) {
  EXPECT_EQ(Assemble({"aEN"}, {"END"}), (Parts{"a", "EN"}));
  EXPECT_EQ(Assemble({"a\xE2\x82"}, {}), (Parts{"a", kBad}));
}

TEST(TextAssembler, TheFirstOfSeveralWins) {
  EXPECT_EQ(Assemble({"xyabc"}, {"bc", "ya"}), (Parts{"x", ""}));
  EXPECT_EQ(Assemble({"a", "b"}, {"abXY", "b"}), (Parts{"", "a", ""}));
}

TEST(TextAssembler, StopStringOfCutCharacters) {
  EXPECT_EQ(Assemble({"a\xE2", "\x82", "\xAC" "b"}, {"\xE2\x82\xAC"}), (Parts{"a", "", "", ""}));
}

TEST(TextAssembler, NoStopBeforeMinTokens) {
  EXPECT_EQ(Assemble({"END", "b", "cEND"}, {"END"}, 3), (Parts{"END", "b", "c", ""}));
  EXPECT_EQ(Assemble({"EN", "D", "x"}, {"END"}, 3), (Parts{"", "END", "x", ""}));
}

// The oracle: everything released is the text before the first stop string, or all of it with the tail.
TEST(TextAssembler, RandomTextsAgreeWithASearch) {
  std::mt19937 rng(2);
  auto word = [&rng](int max) {
    std::string w;
    for (int n = 1 + static_cast<int>(rng() % static_cast<unsigned>(max)); n > 0; --n) w += static_cast<char>('a' + rng() % 2);
    return w;
  };
  for (int round = 0; round < 500; ++round) {
    Parts pieces, stop;
    for (int i = 0; i < 8; ++i) pieces.push_back(word(3));
    for (int i = 0; i < 2; ++i) stop.push_back(word(5) + "b" + word(2));
    const std::string all = Join(pieces), got = Join(Assemble(pieces, stop));
    // The stop string that is complete first decides; of those, the one that begins first.
    std::size_t end = all.size() + 1, begin = all.size();
    std::size_t token_end = 0;
    for (const std::string& p : pieces) {
      token_end += p.size();
      for (const std::string& s : stop) {
        const std::size_t at = all.substr(0, token_end).find(s);
        if (at != std::string::npos && end > all.size()) begin = std::min(begin, at);
      }
      if (begin < all.size()) break;
    }
    EXPECT_EQ(got, all.substr(0, begin)) << all << " stop " << stop[0] << " " << stop[1];
  }
}

}  // namespace
}  // namespace riskkv::worker::testing
