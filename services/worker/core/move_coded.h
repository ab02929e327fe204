// Both sides of a CODED move: cells to bytes and back, with one profile of one set's codec.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_CODED_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_CODED_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/codec/coded_profile.h"
#include "services/worker/core/move_types.h"
#include "services/worker/core/predictor_store.h"

namespace riskkv::worker {

// What an attempt codes with. Immutable; every thread brings a scratch of its own.
struct CodedMove {
  std::shared_ptr<const LoadedSet> set;
  CodedProfile profile;
  CodedPolicy policy;
  const BlockCodec& codec() const { return *set->codec; }
};

// NOT_FOUND: PREDICTOR_MISSING when the set has no codec, UNKNOWN_PROFILE; FAILED_PRECONDITION
// (UNKNOWN_PROFILE) for a profile that omits everything, since nothing of it could be probed.
absl::StatusOr<std::shared_ptr<const CodedMove>> OpenCodedMove(std::shared_ptr<const LoadedSet> set,
                                                               const std::string& profile);

struct EncodedCells {
  CellEncoding encoding = CellEncoding::kCanonical;
  std::string bytes;  // empty in kCanonical: the cells themselves go
};

// `cells`: all layers, one block. What cannot be coded (an element that is not finite, a residual of too many
// steps), or would not be smaller, goes as it is.
absl::StatusOr<EncodedCells> EncodeCells(const CodedMove& move, CellEncoding wanted, const KvBlock& cells,
                                         CodecScratch& scratch);

// Any bytes. DATA_LOSS (CORRUPT_FILE) naming what is wrong with them, also when they are other cells than the
// segment's; FAILED_PRECONDITION (PREDICTOR_STALE) for a block of other weights or steps.
absl::StatusOr<KvBlock> DecodeCells(const CodedMove& move, const Segment& segment, std::string_view bytes,
                                    CodecScratch& scratch);

// What one token of a profile takes, for the cost model.
struct CodedTokenBytes {
  double body = 0;  // between the ends, as the selection windows had it
  double ends = 0;
};
// `history`: cells of a selection window.
CodedTokenBytes TokenBytes(const KvLayout& layout, const CodedProfile& profile, int64_t history);
// Cells of the windows a set was calibrated on; 511 where it does not say.
int64_t CalibratedHistory(const PredictorSet& set);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_CODED_H_
