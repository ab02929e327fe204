#include "services/calibrate/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "fmt/format.h"
#include "services/calibrate/interrupt.h"

namespace riskkv::calibrate {
namespace {

// Between lines where there is no terminal to rewrite one.
constexpr absl::Duration kLinePeriod = absl::Seconds(30);

std::string Minutes(double seconds) {
  const int s = static_cast<int>(seconds + 0.5);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

ProgressLine::ProgressLine(const Clock& clock)
    : clock_(clock),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(clock.Monotonic()),
      phase_start_(start_),
      plan_start_(start_),
      printed_(start_) {}

ProgressLine::~ProgressLine() { EndLine(); }

void ProgressLine::Plan(int steps) {
  planned_ = steps;
  done_ = 0;
  plan_start_ = clock_.Monotonic();
}

void ProgressLine::Begin(const std::string& phase, int steps) {
  EndLine();
  phase_ = phase;
  phase_steps_ = steps;
  phase_done_ = 0;
  phase_skipped_ = 0;
  phase_start_ = clock_.Monotonic();
  if (terminal_) Print(false);
}

void ProgressLine::Step() {
  ++phase_done_;
  ++done_;
  const bool last = phase_done_ >= phase_steps_;
  if (terminal_ || last || clock_.Monotonic() - printed_ >= kLinePeriod) Print(last);
}

void ProgressLine::Skip() {
  ++phase_done_;
  ++phase_skipped_;
  planned_ = std::max(0, planned_ - 1);
  if (phase_done_ >= phase_steps_) Print(true);
}

bool ProgressLine::cancelled() const { return InterruptGuard::Interrupted(); }

void ProgressLine::Print(bool last) {
  const absl::Duration now = clock_.Monotonic();
  std::string line = fmt::format("{:>7}  {:<28} {:>4}/{}", Minutes(absl::ToDoubleSeconds(now - start_)),
                                 phase_, phase_done_, phase_steps_);
  if (const int computed = phase_done_ - phase_skipped_; computed > 0)
    line += fmt::format("  {:.2f} s each", absl::ToDoubleSeconds(now - phase_start_) / computed);
  if (phase_skipped_ > 0) line += fmt::format(", {} kept from before", phase_skipped_);
  if (planned_ > done_ && done_ > 0) {
    const double left = absl::ToDoubleSeconds(now - plan_start_) / done_ * (planned_ - done_);
    line += fmt::format(", about {} left", Minutes(left));
  }
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  printed_ = now;
  open_ = terminal_;
  if (last) EndLine();
}

void ProgressLine::EndLine() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace riskkv::calibrate
