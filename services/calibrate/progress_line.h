// Progress on stderr: one line rewritten on a terminal, one line a phase elsewhere.
#ifndef RISKKV_SERVICES_CALIBRATE_PROGRESS_LINE_H_
#define RISKKV_SERVICES_CALIBRATE_PROGRESS_LINE_H_

#include <string>

#include "common/base/clock.h"
#include "common/quality/progress.h"

namespace riskkv::calibrate {

// "  3:20  select: groups 0+3   7/24   2.41 s each, about 6 min left". Steps are taken as equally long for
// the estimate.
class ProgressLine : public Progress {
 public:
  explicit ProgressLine(const Clock& clock);
  ~ProgressLine() override;
  void Plan(int steps) override;
  void Begin(const std::string& phase, int steps) override;
  void Step() override;
  void Skip() override;
  bool cancelled() const override;

 private:
  void Print(bool last);
  void EndLine();

  const Clock& clock_;
  const bool terminal_;
  const absl::Duration start_;
  absl::Duration phase_start_, plan_start_, printed_;
  std::string phase_;
  int phase_steps_ = 0, phase_done_ = 0;
  int planned_ = 0, done_ = 0, phase_skipped_ = 0;  // skipped steps are in phase_done_, not in done_
  bool open_ = false;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_PROGRESS_LINE_H_
