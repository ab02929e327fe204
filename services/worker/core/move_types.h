// What the two ends of a move say to each other, as plain data: protocol.md section 2 without gRPC. rpc/convert_move
// turns these into riskkv.v1 messages and back. No behaviour here beyond names and equality.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_TYPES_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_TYPES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/migration/records.h"  // what the coordinator sees too: Fence, RoundDone, PausedAt, MoveStats
#include "services/worker/core/request.h"

namespace riskkv::worker {

inline constexpr int64_t kMaxFramePayload = 1 << 20;
inline constexpr int kMoveBlockTokens = 128;  // body blocks: aligned at absolute positions, one probe each

using riskkv::Fence;
// "mig=<id>/<attempt> req=<id>": the prefix of every log line of a move.
std::string LogPrefix(const Fence& fence);

// Values as v1::Mode.
enum class MoveMode { kUnspecified = 0, kFull = 2, kRisk = 3, kCoded = 4, kReplay = 5 };
const char* MoveModeName(MoveMode mode);

// Values as v1::MigrationState.
enum class MoveState {
  kUnspecified = 0, kReserved = 3, kPrecopy = 4, kPaused = 5, kFinal = 6, kRebuilt = 7, kPrepared = 8,
  kCommitted = 9, kResumed = 10, kSucceeded = 11, kStayed = 12, kAborted = 13, kFailed = 14,
};
const char* MoveStateName(MoveState state);

enum class SegmentKind { kCells = 1, kProbe = 2 };
// Values as v1::CellEncoding.
enum class CellEncoding { kCanonical = 0, kCoded = 1, kInt8 = 2 };

struct Segment {
  uint32_t id = 0;  // from 1 on, growing within the attempt
  SegmentKind kind = SegmentKind::kCells;
  TokenRange range;                // kCells
  std::vector<int64_t> positions;  // kProbe, ascending
  std::vector<int> layers;         // ascending
  int64_t bytes = 0;
  std::string sha256;
  bool rebuild = false;            // kCells: the layers missing here are rebuilt with the attempt's profile
  CellEncoding encoding = CellEncoding::kCanonical;
  int64_t tokens() const { return kind == SegmentKind::kCells ? range.size() : static_cast<int64_t>(positions.size()); }
};

struct RoundManifest {
  Fence fence;
  Fingerprint fingerprint;
  MoveMode mode = MoveMode::kUnspecified;
  std::string predictor_set;
  std::string profile;
  uint32_t round = 0;
  bool final = false;
  int64_t frontier = 0;
  std::vector<Segment> segments;
  std::vector<Token> tokens;  // kReplay
  std::vector<Provenance> provenance;
};

struct RoundReply {
  std::vector<TokenRange> held;
  std::string destination_boot_id;
};

// One piece of a segment. Segment 0 with an empty payload belongs to no segment: it renews the lease and asks for progress.
struct Frame {
  std::string migration_id;
  uint32_t attempt = 0;
  uint64_t epoch = 0;
  uint32_t segment = 0;
  int64_t offset = 0;
  int64_t length = 0;
  uint64_t xxh3 = 0;
  std::string_view payload;
};

struct PushReply {
  int64_t bytes = 0;
  std::vector<uint32_t> sealed;
  int64_t rebuilt_frontier = 0;  // cells below are in the destination's cache
};

struct FinalRequest {
  Fence fence;
  int64_t n_tokens = 0;
  int64_t n_kv = 0;
  RequestParams params;
  std::vector<Token> prompt;
  std::vector<LoggedToken> log;
  std::vector<Provenance> provenance;
  std::string digest;  // TokensDigest over prompt and output
};
// SHA-256 over token ids, little endian int32.
std::string TokensDigest(const std::vector<Token>& prompt, const std::vector<LoggedToken>& log);

struct LayerBytes {
  int64_t cells = 0;
  int64_t probe = 0;
};

struct FinalReply {
  bool prepared = false;
  double rebuild_ms = 0;
  double probe_error = 0;  // worst layer's error over its bound
  int64_t tokens_rebuilt = 0;
  int64_t tokens_exact = 0;
  double replay_ms = 0;
  std::map<int, LayerBytes> received;  // payload bytes on the wire of canonical cells and probes, by layer
  double decode_ms = 0;
  int64_t tokens_coded = 0;  // coded or in 8 bits
};

struct ReserveParams {
  Fence fence;
  Fingerprint fingerprint;
  MoveMode mode = MoveMode::kUnspecified;
  std::string predictor_set;
  std::string profile;
  int64_t n_kv = 0;
  int64_t growth = 0;
  int64_t headroom = 0;
  RequestParams params;
  absl::Duration lease = absl::Seconds(10);
};

struct StartMoveParams {
  Fence fence;
  MoveMode mode = MoveMode::kUnspecified;
  std::string predictor_set;
  std::string profile;
  std::string destination_id;
  std::string destination_address;
  std::string destination_client_address;  // empty: the same
  const std::string& address_for_clients() const {
    return destination_client_address.empty() ? destination_address : destination_client_address;
  }
  absl::Duration max_pause = absl::Milliseconds(200);
  absl::Duration deadline = absl::Seconds(30);
  int max_rounds = 8;
  int probe_tokens = 2;
  absl::Duration hold_for_tests;
};

using riskkv::PausedAt;
using riskkv::RoundDone;
struct RequestEnded {
  FinishReason reason = FinishReason::kNone;
  int64_t output_tokens = 0;
};
using riskkv::MoveStats;
// `failed` of v1::MoveEvent is an absl::Status here.
struct MoveEvent {
  MoveState state = MoveState::kUnspecified;
  absl::Duration monotonic;
  std::variant<std::monostate, RoundDone, PausedAt, MoveStats, absl::Status, RequestEnded> detail;
};

enum class Decision { kOpen = 1, kCommitted = 2, kAborted = 3, kResumed = 4, kRolledBack = 5 };
const char* DecisionName(Decision decision);

// What the owner record says of an attempt.
struct DecisionInfo {
  Decision decision = Decision::kOpen;
  uint64_t epoch = 0;  // of the record after it
  int64_t start_index = 0;
  std::string owner_id;
  std::string owner_address;  // for clients
  absl::Status reason;
};

struct AttemptInfo {
  bool known = false;
  MoveState state = MoveState::kUnspecified;
  absl::Status error;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_TYPES_H_
