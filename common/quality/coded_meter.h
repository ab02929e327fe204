// What a coded profile costs: bytes, and the change of NLL, measured as risk.h measures omission.
#ifndef RISKKV_COMMON_QUALITY_CODED_METER_H_
#define RISKKV_COMMON_QUALITY_CODED_METER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/coded_profile.h"
#include "common/quality/bootstrap.h"
#include "common/quality/cell_store.h"
#include "common/quality/progress.h"
#include "common/quality/risk.h"
#include "common/quality/scorer.h"
#include "common/quality/windows.h"

namespace riskkv {

struct CodedMeasurement {
  std::vector<WindowNll> windows;     // in the order of the window set
  std::vector<int64_t> window_bytes;  // everything sent
  RiskStats stats;
  int64_t bytes_full = 0, bytes_sent = 0;  // over all windows
  double times_fewer() const {
    return bytes_sent > 0 ? static_cast<double>(bytes_full) / static_cast<double>(bytes_sent) : 0;
  }
};

// Exact cells and NLL of a window are computed once, candidates each time. What it is given must outlive it. Not
// thread-safe.
class CodedMeter {
 public:
  CodedMeter(Engine& engine, CellStore& store, const WindowSet& windows, std::string split,
             const BootstrapOptions& bootstrap, Progress& progress);

  // Exact cells and NLL of every window, scored as risk.h does; a second call does nothing.
  absl::Status Prepare();
  // delta = NLL(horizon | decoded cache) - NLL(same | exact cache), nats per token; bytes of everything CodeCache
  // counts.
  absl::StatusOr<CodedMeasurement> Measure(const BlockCodec& codec, const CodedProfile& profile);
  double exact_nll() const;  // mean over windows

 private:
  std::string Name(std::size_t window) const { return split_ + "-" + std::to_string(window); }

  WindowScorer scorer_;
  CellStore& store_;
  const WindowSet& windows_;
  const std::string split_;
  const BootstrapOptions bootstrap_;
  Progress& progress_;
  CodecScratch scratch_;
  std::vector<double> exact_;  // by window, mean nats a token
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_CODED_METER_H_
