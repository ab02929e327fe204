#include "common/quality/windows.h"

#include <set>

#include "common/engine/fake/fake_engine.h"
#include "fmt/format.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

// Articles of `lengths` letters, each of its own letter; the fake's tokens are bytes, after a begin-of-text
// token.
TextFile Text(const std::vector<int>& lengths) {
  TextFile file;
  file.path = "text.txt";
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Article a;
    a.text = std::string(static_cast<std::size_t>(lengths[i]), static_cast<char>('a' + i));
    file.articles.push_back(a);
  }
  return file;
}

class WindowsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create({})); }
  std::unique_ptr<FakeEngine> engine_;
};

TEST_F(WindowsTest, NeverCrossAnArticleAndBeginAsTheModelWants) {
  ASSERT_OK_AND_ASSIGN(const WindowSet set, CutWindows(*engine_, Text({100, 15, 16, 40}), {9, 8}, 1, 0));
  EXPECT_EQ(set.available, 6 + 0 + 1 + 2);
  EXPECT_EQ(set.windows.size(), 9u);
  EXPECT_EQ(set.articles, 3);
  for (const Window& w : set.windows) {
    ASSERT_EQ(w.tokens.size(), 17u);
    EXPECT_EQ(w.tokens[0], kFakeBos);
    for (std::size_t i = 1; i < w.tokens.size(); ++i) EXPECT_EQ(w.tokens[i], 'a' + w.article);
  }
}

TEST_F(WindowsTest, AnyFirstFewAreSpreadOverArticles) {
  ASSERT_OK_AND_ASSIGN(const WindowSet set, CutWindows(*engine_, Text({400, 200, 300, 100}), {9, 8}, 5, 6));
  ASSERT_EQ(set.windows.size(), 6u);
  std::multiset<int> articles;
  for (const Window& w : set.windows) articles.insert(w.article);
  for (int a = 0; a < 4; ++a) {
    EXPECT_GE(articles.count(a), 1u);
    EXPECT_LE(articles.count(a), 2u);
  }
  EXPECT_EQ(set.available, 25 + 12 + 18 + 6);
}

TEST_F(WindowsTest, AreAFunctionOfTheSeed) {
  auto order = [&](uint64_t seed) {
    std::string out;
    const absl::StatusOr<WindowSet> set = CutWindows(*engine_, Text({400, 200, 300}), {9, 8}, seed, 0);
    for (const Window& w : set.value().windows) out += fmt::format("{}.{} ", w.article, w.index);
    return out;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST_F(WindowsTest, SaysHowShortAShortTextIs) {
  EXPECT_THAT(CutWindows(*engine_, Text({10, 12}), {9, 8}, 1, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("text.txt"), HasSubstr("12 tokens"), HasSubstr("needs 17"))));
  EXPECT_FALSE(CutWindows(*engine_, Text({100}), {1, 8}, 1, 0).ok());
}

}  // namespace
}  // namespace riskkv
