// One declared segment on the destination: takes frames, and is sealed when its bytes are complete and their SHA-256 agrees.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_SEGMENT_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_SEGMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/token_ranges.h"
#include "services/worker/core/move_types.h"

namespace riskkv::worker {

// Not thread-safe: the attempt guards it. Nothing is written once it is sealed.
class SegmentBuffer {
 public:
  // `segment` has been checked: its memory is allocated here.
  explicit SegmentBuffer(Segment segment);

  // INVALID_ARGUMENT (BAD_RANGE) outside the segment or longer than said; DATA_LOSS (CHECKSUM) for damaged bytes, (DIGEST) when the
  // complete segment is not what was declared, (MANIFEST_MISMATCH) for other bytes where some are already. Repeats are accepted.
  absl::Status Accept(const Frame& frame);

  const Segment& segment() const { return segment_; }
  bool sealed() const { return sealed_; }
  int64_t bytes() const { return segment_.bytes; }
  // The elements, once sealed; in other encodings than kCanonical the bytes, and one more where they are odd. Afterwards the segment
  // holds none and only remembers that it was sealed.
  std::vector<uint16_t> Take();
  bool taken() const { return taken_; }

 private:
  absl::Status CheckFrame(const Frame& frame) const;
  absl::Status Write(const Frame& frame);
  absl::Status Seal();
  std::string Name() const;

  const Segment segment_;
  std::vector<uint16_t> data_;
  TokenRanges present_;  // byte offsets
  bool sealed_ = false;
  bool taken_ = false;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_SEGMENT_H_
