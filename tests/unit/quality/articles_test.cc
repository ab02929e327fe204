#include "common/quality/articles.h"

#include <fstream>

#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ParseArticles, SplitsAtHeadingsAlone) {
  ASSERT_OK_AND_ASSIGN(
      const TextFile file,
      ParseArticles("before\n = One = \n text \n = = Section = = \n more \n = Two = \n end", "t"));
  ASSERT_EQ(file.articles.size(), 3u);
  EXPECT_EQ(file.articles[0].title, "");
  EXPECT_EQ(file.articles[0].text, "before\n");
  EXPECT_EQ(file.articles[1].title, "One");
  EXPECT_THAT(file.articles[1].text, HasSubstr("Section"));
  EXPECT_EQ(file.articles[2].title, "Two");
  EXPECT_EQ(file.articles[2].text, " = Two = \n end");
}

TEST(ParseArticles, AFileWithoutHeadingsIsOneArticle) {
  ASSERT_OK_AND_ASSIGN(const TextFile file, ParseArticles("int main() {\n  return 1 = 2;\n}\n", "main.c"));
  ASSERT_EQ(file.articles.size(), 1u);
  EXPECT_EQ(file.articles[0].title, "");
}

TEST(ParseArticles, RefusesEmptyAndBrokenText) {
  EXPECT_THAT(ParseArticles("", "a.txt"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.txt is empty")));
  EXPECT_THAT(ParseArticles(" \n\t\n", "a.txt"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(ParseArticles("abc\xff", "a.txt"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset 3")));
  EXPECT_THAT(ReadArticles("/no/such/file"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/file")));
  EXPECT_FALSE(ReadArticles(::testing::TempDir()).ok());
}

TEST(FindInvalidUtf8, KnowsTheEdges) {
  for (const char* good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(FindInvalidUtf8(good), std::string_view::npos) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(FindInvalidUtf8(bad), 0u) << bad;
  }
  EXPECT_EQ(FindInvalidUtf8("\xc3\xa4\xff"), 2u);
}

TEST(CheckDisjoint, FindsACopyAcrossSplitsWhateverItsSpacing) {
  ASSERT_OK_AND_ASSIGN(const TextFile fit,
                       ParseArticles(" = One = \nsome  Text\n = Two = \nother\n", "fit.txt"));
  ASSERT_OK_AND_ASSIGN(const TextFile select,
                       ParseArticles(" = Three = \nx\n = one =\n\n SOME text", "select.txt"));
  ASSERT_OK_AND_ASSIGN(const TextFile confirm, ParseArticles(" = Four = \nx\n", "confirm.txt"));
  EXPECT_THAT(
      CheckDisjoint({{"fit", &fit}, {"select", &select}}),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("\"one\""), HasSubstr("fit and select"))));
  EXPECT_OK(CheckDisjoint({{"fit", &fit}, {"confirm", &confirm}}));
  EXPECT_FALSE(CheckDisjoint({{"fit", &fit}, {"confirm", &fit}}).ok());
}

TEST(ParseArticles, DropsARepeatWithinOneFile) {
  ASSERT_OK_AND_ASSIGN(const TextFile file, ParseArticles(" = One = \na\n = One = \na\n", "t"));
  EXPECT_EQ(file.articles.size(), 1u);
  EXPECT_EQ(file.repeated, 1);
}

}  // namespace
}  // namespace riskkv
