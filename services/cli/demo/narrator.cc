#include "services/cli/demo/narrator.h"

#include <sstream>

namespace riskkv::cli {

namespace {
constexpr int kTextWidth = 100;  // lines end at the first blank beyond
}  // namespace

void Narrator::CloseLine() {
  if (open_line_) out_ << "\n";
  open_line_ = false;
  column_ = 0;
}

void Narrator::Step(const std::string& line) {
  CloseLine();
  out_ << "\n==> " << line << "\n" << std::flush;
}

void Narrator::Line(const std::string& line) {
  CloseLine();
  out_ << "    " << line << "\n" << std::flush;
}

void Narrator::Block(const std::string& lines) {
  CloseLine();
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) out_ << (line.empty() ? "" : "    ") << line << "\n";
  out_ << std::flush;
}

void Narrator::Text(const std::string& piece) {
  if (!streams_text_ || piece.empty()) return;
  for (char c : piece) {
    if (c == ' ' && column_ >= kTextWidth) c = '\n';
    out_ << c;
    column_ = c == '\n' ? 0 : column_ + 1;
  }
  out_ << std::flush;
  open_line_ = column_ > 0;
}

void Narrator::Mark(const std::string& mark) {
  if (!streams_text_) return Line(mark);
  CloseLine();
  out_ << "    -------- " << mark << " --------\n" << std::flush;
}

}  // namespace riskkv::cli
