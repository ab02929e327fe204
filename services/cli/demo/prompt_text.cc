#include "services/cli/demo/prompt_text.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace riskkv::cli {
namespace {

constexpr size_t kShortParagraph = 120;  // captions and list items make poor prompts

// Paragraphs are lines (WikiText) or runs of lines between empty ones; headings are lines like " = Title = ".
std::vector<std::string> Paragraphs(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) {
    size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '=' || line.size() < kShortParagraph) continue;
    result.push_back(line.substr(first));
  }
  return result;
}

std::string CutAtWord(const std::string& text, size_t chars) {
  if (text.size() <= chars) return text;
  size_t blank = text.rfind(' ', chars);
  return text.substr(0, blank == std::string::npos ? chars : blank);
}

}  // namespace

std::string CutPrompt(const std::string& text, int part, int parts, size_t chars) {
  std::vector<std::string> paragraphs = Paragraphs(text);
  if (paragraphs.empty()) return CutAtWord(text, chars);
  std::string prompt;
  size_t start = paragraphs.size() * part / parts;
  for (size_t i = start; i < paragraphs.size() && prompt.size() < chars; ++i) {
    prompt += (prompt.empty() ? "" : "\n\n") + paragraphs[i];
  }
  // Near the end of the text there may be too little: take what is before as well.
  for (size_t i = start; i > 0 && prompt.size() < chars; --i) prompt = paragraphs[i - 1] + "\n\n" + prompt;
  return CutAtWord(prompt, chars);
}

const std::string& BuiltInText() {
  static const std::string text =
      "Long before letters were sorted by machines, they were sorted on moving trains. A clerk stood at a "
      "wall of wooden "
      "pigeonholes, his feet apart against the swaying of the carriage, and threw letter after letter into "
      "the slot of the "
      "town where it had to leave the train. He could not fall behind: the towns came at the pace of the "
      "timetable, whether "
      "he was ready or not, and a bag that was not closed in time travelled on to the next stop and had to "
      "come back.\n"
      "What made the work possible was that the train never had to wait for it. At small stations it did not "
      "even stop. A "
      "leather pouch hung from a crane beside the track, an iron arm reached out of the carriage and took it "
      "at full speed, "
      "and in the same second the clerk kicked the outgoing bag through the open door onto the platform. If "
      "the arm missed, "
      "nothing was lost: the pouch still hung there, the station master knew that it did, and the next train "
      "took it. There "
      "was never a moment in which nobody answered for the mail, and never one in which two people did.\n"
      "The rule behind this was simple and was written on the first page of the manual. A bag belongs to the "
      "man who has "
      "signed for it. He may not put it down until another has signed, and the signature is made in one "
      "book, which stays "
      "at the station. A bag that was seen leaving the crane is not thereby received; a bag that nobody saw "
      "is not thereby "
      "lost. When two clerks disagreed, the book decided, and until the book could be read both of them "
      "waited.\n"
      "Speed came from somewhere else. Most letters in a pouch were like most letters of the day before: the "
      "same firms "
      "wrote to the same firms. An experienced clerk knew from the first lines of the address, and often "
      "from the colour of "
      "the envelope, where a letter would go, and he looked at the rest only when something was unusual. "
      "From time to time "
      "an inspector took a handful of sorted letters and read every address in full. If more than a few lay "
      "in the wrong "
      "slot, the whole pouch was sorted again, slowly and by the rule. The clerks did not mind. It was the "
      "inspection that "
      "let them be quick for the rest of the journey, because everybody knew how often the quick way was "
      "right.\n"
      "When the service ended, the carriages were sold, and one of them became a reading room in a small "
      "town by the coast. "
      "The pigeonholes are still there, and visitors put notes into them, as they were asked to by the woman "
      "who looks "
      "after the place. In the evening she takes them out, reads them, and sorts them";
  return text;
}

}  // namespace riskkv::cli
