#include "services/worker/core/move_coded.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/codec/coded_probe.h"
#include "common/codec/int8_rows.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv::worker {

absl::StatusOr<std::shared_ptr<const CodedMove>> OpenCodedMove(std::shared_ptr<const LoadedSet> set,
                                                               const std::string& profile) {
  if (set->codec == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                     fmt::format("predictor set {} has no codec", set->set->digest()));
  }
  auto move = std::make_shared<CodedMove>();
  ASSIGN_OR_RETURN(move->profile, FindCodedProfile(*set->set, profile));
  ASSIGN_OR_RETURN(move->policy, set->codec->MakePolicy(move->profile.steps));
  if (CodedProbeLayers(*set->codec, move->policy, 0, 0).empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "UNKNOWN_PROFILE",
                     fmt::format("profile {} omits every unit: nothing of it could be probed", profile));
  }
  move->set = std::move(set);
  return move;
}

absl::StatusOr<EncodedCells> EncodeCells(const CodedMove& move, CellEncoding wanted, const KvBlock& cells,
                                         CodecScratch& scratch) {
  if (wanted == CellEncoding::kCanonical) return EncodedCells{};
  auto bytes = wanted == CellEncoding::kCoded ? move.codec().Encode(move.policy, cells, scratch)
                                              : EncodeInt8(move.codec().layout(), cells);
  if (bytes.ok() && (wanted == CellEncoding::kInt8 || static_cast<int64_t>(bytes->size()) < cells.bytes())) {
    return EncodedCells{wanted, *std::move(bytes)};
  }
  const bool as_it_is =
      bytes.ok() || absl::IsOutOfRange(bytes.status()) || absl::IsInvalidArgument(bytes.status());
  if (as_it_is) return EncodedCells{};
  return bytes.status();
}

absl::StatusOr<KvBlock> DecodeCells(const CodedMove& move, const Segment& segment, std::string_view bytes,
                                    CodecScratch& scratch) {
  auto cells = segment.encoding == CellEncoding::kCoded ? move.codec().Decode(move.policy, bytes, scratch)
                                                        : DecodeInt8(move.codec().layout(), bytes);
  const std::string where = fmt::format("cells [{}, {})", segment.range.begin, segment.range.end);
  if (absl::IsOutOfRange(cells.status()))
    return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE",
                     where + ": " + std::string(cells.status().message()));
  if (!cells.ok()) return Annotate(cells.status(), where);
  if (cells->range == segment.range) return cells;
  return MakeError(
      absl::StatusCode::kDataLoss, "CORRUPT_FILE",
      fmt::format("{}: the bytes are of cells [{}, {})", where, cells->range.begin, cells->range.end));
}

CodedTokenBytes TokenBytes(const KvLayout& layout, const CodedProfile& profile, int64_t history) {
  const double full = static_cast<double>(layout.bytes_per_token());
  CodedTokenBytes bytes{full, full};
  if (profile.int8_ends) bytes.ends = static_cast<double>(Int8Bytes(layout, 1) - Int8Bytes(layout, 0));
  const int64_t ends = std::min<int64_t>(history, profile.ends.first + profile.ends.last);
  if (profile.times_fewer <= 0 || ends >= history) return bytes;
  const double all = full * static_cast<double>(history) / profile.times_fewer;
  const double body = (all - bytes.ends * static_cast<double>(ends)) / static_cast<double>(history - ends);
  bytes.body = std::clamp(body, 0.0, full);
  return bytes;
}

int64_t CalibratedHistory(const PredictorSet& set) {
  constexpr int64_t kDefaultHistory = 512;
  const nlohmann::json j = nlohmann::json::parse(set.info().calibration, nullptr, /*allow_exceptions=*/false);
  const bool said = j.is_object() && j.contains("history") && j["history"].is_number_integer();
  return std::max<int64_t>(1, (said ? j["history"].get<int64_t>() : kDefaultHistory) - 1);
}

}  // namespace riskkv::worker
