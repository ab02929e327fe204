// The demonstration's voice: short lines, and the generated text as it streams.
#ifndef RISKKV_SERVICES_CLI_DEMO_NARRATOR_H_
#define RISKKV_SERVICES_CLI_DEMO_NARRATOR_H_

#include <ostream>
#include <string>

namespace riskkv::cli {

// Not thread-safe.
class Narrator {
 public:
  // streams_text: false leaves the generated text out (with --json, where this goes to stderr).
  Narrator(std::ostream& out, bool streams_text) : out_(out), streams_text_(streams_text) {}

  // The same voice without the generated text.
  Narrator Quiet() const { return Narrator(out_, false); }

  void Step(const std::string& line);    // "==> line"
  void Line(const std::string& line);    // "    line"
  void Block(const std::string& lines);  // every line indented
  void Text(const std::string& piece);   // as it is, long lines broken at blanks
  void Mark(const std::string& mark);    // on a line of its own between two pieces of text

 private:
  void CloseLine();

  std::ostream& out_;
  const bool streams_text_;
  bool open_line_ = false;
  int column_ = 0;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_NARRATOR_H_
