#include "services/worker/core/move_segment.h"

#include <cstring>
#include <utility>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {

SegmentBuffer::SegmentBuffer(Segment segment)
    : segment_(std::move(segment)), data_((static_cast<std::size_t>(segment_.bytes) + 1) / sizeof(uint16_t)) {}

std::string SegmentBuffer::Name() const { return fmt::format("segment {} of {} bytes", segment_.id, segment_.bytes); }

absl::Status SegmentBuffer::CheckFrame(const Frame& frame) const {
  const int64_t size = static_cast<int64_t>(frame.payload.size());
  if (frame.length != size || size == 0 || size > kMaxFramePayload) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                     fmt::format("{}: frame says {} bytes and carries {} (1 to {})", Name(), frame.length, size, kMaxFramePayload));
  }
  if (frame.offset < 0 || frame.offset > segment_.bytes - size) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                     fmt::format("{}: frame of {} bytes at {}", Name(), size, frame.offset));
  }
  const uint64_t xxh3 = Xxh3(frame.payload.data(), frame.payload.size());
  if (xxh3 != frame.xxh3) {
    return MakeError(absl::StatusCode::kDataLoss, "CHECKSUM",
                     fmt::format("{}: frame at {} has XXH3 {:016x}, says {:016x}", Name(), frame.offset, xxh3, frame.xxh3));
  }
  return absl::OkStatus();
}

absl::Status SegmentBuffer::Accept(const Frame& frame) {
  RETURN_IF_ERROR(CheckFrame(frame));
  if (taken_) return absl::OkStatus();  // a repeat of what is in the cache already
  RETURN_IF_ERROR(Write(frame));
  if (sealed_ || present_.size() < segment_.bytes) return absl::OkStatus();
  return Seal();
}

absl::Status SegmentBuffer::Write(const Frame& frame) {
  char* base = reinterpret_cast<char*>(data_.data());
  const TokenRange range{frame.offset, frame.offset + frame.length};
  for (TokenRange held : present_.Present(range)) {
    if (std::memcmp(base + held.begin, frame.payload.data() + (held.begin - range.begin), static_cast<std::size_t>(held.size())) != 0) {
      return MakeError(absl::StatusCode::kDataLoss, "MANIFEST_MISMATCH",
                       fmt::format("{}: other bytes for [{}, {}), which are there already", Name(), held.begin, held.end));
    }
  }
  for (TokenRange missing : present_.Missing(range)) {
    std::memcpy(base + missing.begin, frame.payload.data() + (missing.begin - range.begin), static_cast<std::size_t>(missing.size()));
  }
  present_.Add(range);
  return absl::OkStatus();
}

absl::Status SegmentBuffer::Seal() {
  const std::string digest = Sha256Hex({reinterpret_cast<const char*>(data_.data()), static_cast<std::size_t>(segment_.bytes)});
  if (digest != segment_.sha256) {
    return MakeError(absl::StatusCode::kDataLoss, "DIGEST",
                     fmt::format("{}: SHA-256 is {}, declared {}", Name(), digest, segment_.sha256));
  }
  sealed_ = true;
  return absl::OkStatus();
}

std::vector<uint16_t> SegmentBuffer::Take() {
  taken_ = true;
  return std::exchange(data_, {});
}

}  // namespace riskkv::worker
