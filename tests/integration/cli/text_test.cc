// Tables, names, JSON of messages, prompts.
#include "services/cli/demo/prompt_text.h"
#include "services/cli/names.h"
#include "services/cli/proto_json.h"
#include "services/cli/table.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::cli {
namespace {

TEST(TableTest, AlignsBothWaysAndEndsNoLineWithBlanks) {
  Table table({"NAME", ">COUNT", "NOTE"});
  table.Add({"a", "1", ""});
  table.Add({"long name", "1000", "é!"});
  EXPECT_EQ(table.ToString(),
            "NAME       COUNT  NOTE\n"
            "a              1\n"
            "long name   1000  é!\n");
}

TEST(TableTest, ReadableNumbers) {
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(737280), "737 kB");
  EXPECT_EQ(HumanBytes(11796480), "11.80 MB");
  EXPECT_EQ(HumanRate(12.5e6), "100.0 Mbit/s");
  EXPECT_EQ(HumanSeconds(0.0142), "14.2 ms");
  EXPECT_EQ(HumanSeconds(200), "3m20s");
}

TEST(NamesTest, EnumsWithoutTheirPrefix) {
  EXPECT_EQ(ShortName(v1::MODE_RISK), "RISK");
  EXPECT_EQ(ShortName(v1::MIGRATION_STATE_PRECOPY), "PRECOPY");
  EXPECT_EQ(ShortName(v1::NO_BLOCKS), "NO_BLOCKS");
  EXPECT_EQ(ShortName(static_cast<v1::Mode>(77)), "77");
}

TEST(ProtoJsonTest, NumbersStayNumbersAndBytesThatAreNoTextBecomeHex) {
  v1::TokenRecord token;
  token.set_index(1LL << 40);
  token.set_text("\xff\x01");
  Json j = ToJson(token);
  EXPECT_EQ(j["index"], 1LL << 40);
  EXPECT_EQ(j["text"], "ff01");
  token.set_text("é");
  EXPECT_EQ(ToJson(token)["text"], "é");
}

TEST(PromptTextTest, TakesParagraphsNotHeadings) {
  std::string p1(200, 'a'), p2(200, 'b');
  std::string text = " = Title = \n\n" + p1 + "\n = = Part = = \n" + p2 + "\nshort\n";
  EXPECT_EQ(CutPrompt(text, 0, 2, 150), std::string(150, 'a'));
  EXPECT_EQ(CutPrompt(text, 1, 2, 200), p2);
  EXPECT_EQ(CutPrompt(text, 1, 2, 1000), p1 + "\n\n" + p2) << "what is before when the rest is too short";
  EXPECT_GT(CutPrompt(BuiltInText(), 0, 2, 2000).size(), 1900u);
}

}  // namespace
}  // namespace riskkv::cli
