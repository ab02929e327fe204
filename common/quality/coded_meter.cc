#include "common/quality/coded_meter.h"

#include <span>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {

CodedMeter::CodedMeter(Engine& engine, CellStore& store, const WindowSet& windows, std::string split,
                       const BootstrapOptions& bootstrap, Progress& progress)
    : scorer_(engine),
      store_(store),
      windows_(windows),
      split_(std::move(split)),
      bootstrap_(bootstrap),
      progress_(progress) {}

absl::Status CodedMeter::Prepare() {
  if (exact_.size() == windows_.windows.size()) return absl::OkStatus();
  progress_.Begin(fmt::format("{}: exact", split_), static_cast<int>(windows_.windows.size() - exact_.size()));
  const std::size_t cells = static_cast<std::size_t>(WindowScorer::HistoryCells(windows_.shape));
  for (std::size_t i = exact_.size(); i < windows_.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    const Window& window = windows_.windows[i];
    ASSIGN_OR_RETURN(const KvBlock exact, scorer_.Prefill(std::span<const Token>(window.tokens).first(cells)));
    RETURN_IF_ERROR(store_.Put(Name(i), exact));
    ASSIGN_OR_RETURN(const std::vector<float> nll, scorer_.Score(exact, window, windows_.shape));
    exact_.push_back(Mean(nll));
    progress_.Step();
  }
  return absl::OkStatus();
}

double CodedMeter::exact_nll() const {
  double sum = 0;
  for (double nll : exact_) sum += nll;
  return exact_.empty() ? 0 : sum / static_cast<double>(exact_.size());
}

absl::StatusOr<CodedMeasurement> CodedMeter::Measure(const BlockCodec& codec, const CodedProfile& profile) {
  RETURN_IF_ERROR(Prepare());
  progress_.Begin(fmt::format("{}: {}", split_, profile.name), static_cast<int>(windows_.windows.size()));
  CodedMeasurement m;
  std::vector<PairedDelta> deltas;
  for (std::size_t i = 0; i < windows_.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    ASSIGN_OR_RETURN(const KvBlock exact, store_.Get(Name(i)));
    ASSIGN_OR_RETURN(const CodedCache cache, CodeCache(codec, profile, exact, scratch_));
    ASSIGN_OR_RETURN(const std::vector<float> nll, scorer_.Score(cache.cells, windows_.windows[i], windows_.shape));
    m.windows.push_back({windows_.windows[i].article, exact_[i], Mean(nll)});
    m.window_bytes.push_back(cache.bytes);
    m.bytes_sent += cache.bytes;
    m.bytes_full += exact.bytes();
    deltas.push_back({m.windows.back().article, m.windows.back().delta()});
    progress_.Step();
  }
  m.stats = Summarise(deltas, bootstrap_);
  return m;
}

}  // namespace riskkv
