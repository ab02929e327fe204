// The durable records of protocol.md, 1, as plain data. Stores keep them as versioned JSON (record_json.h); who may change
// them how is in transitions.h.
#ifndef RISKKV_COMMON_MIGRATION_RECORDS_H_
#define RISKKV_COMMON_MIGRATION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/migration/plan.h"
#include "common/migration/states.h"

namespace riskkv {

// What every control call and frame of a migration carries (riskkv.v1.Fence).
struct Fence {
  std::string migration_id;
  uint32_t attempt = 0;
  uint64_t epoch = 0;  // the request's epoch when the attempt opened
  std::string request_id;
  std::string source_boot_id;
  std::string destination_boot_id;
  uint64_t leader_term = 0;
  bool operator==(const Fence&) const = default;
};

// A worker at one boot of its process.
struct WorkerName {
  std::string id;
  std::string boot_id;
  std::string address;  // host:port for coordinator and workers; where it was when recorded
  std::string client_address;  // host:port for clients; empty: the same
  const std::string& for_clients() const { return client_address.empty() ? address : client_address; }
  bool operator==(const WorkerName&) const = default;
};

// One try at one change of owner, while it is undecided.
struct OpenAttempt {
  std::string migration_id;
  uint32_t attempt = 0;
  WorkerName destination;
  uint64_t leader_term = 0;
  bool operator==(const OpenAttempt&) const = default;
};

// Durable, one a request; inserted, if absent, with the first attempt (epoch 1 is implicit). Every change is a
// compare-and-swap on `revision`.
struct OwnerRecord {
  std::string request_id;
  WorkerName owner;
  uint64_t epoch = 1;
  int64_t start_index = 0;          // first output index of this epoch
  std::optional<OpenAttempt> open;  // at most one
  // The last attempt that changed the owner, and what became of it. A roll-back gives the request back to `previous`.
  std::string last_committed;       // migration id
  uint32_t last_attempt = 0;
  bool resumed = true;              // false from the commit until the destination may deliver or the roll-back
  bool rolled_back = false;         // last_committed was rolled back
  WorkerName previous;              // the owner before last_committed
  bool cancelled = false;           // by the client of the generation: no attempt may commit
  uint64_t revision = 0;            // the store's; 0: not stored yet. Not part of the JSON
};

// The caller's order. Everything but deadline and traceparent is the body that an idempotent retry must repeat.
struct JobSpec {
  std::string migration_id;
  std::string request_id;
  uint64_t expected_epoch = 0;
  std::string source;
  std::string destination;
  Mode mode = Mode::kUnspecified;
  bool allow_lossy = false;
  std::string predictor_set;
  std::string profile;
  int64_t max_pause_ms = 0;
  int64_t deadline_ms = 0;
  OnFailure on_failure = OnFailure::kUnspecified;
  std::string reason;
  bool must_move = false;
  bool allow_ungated = false;
  std::string traceparent;
};

// SHA-256 over the body.
std::string BodyDigest(const JobSpec& spec);

struct RoundDone {
  uint32_t round = 0;
  int64_t frontier = 0;  // cells below this are at the destination
  int64_t n_tokens = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

struct PausedAt {
  int64_t n_tokens = 0;
  int64_t remaining_cells = 0;
  double predicted_pause_ms = 0;
};

struct MoveStats {
  int64_t bytes_sent = 0;
  int64_t bytes_full = 0;
  int64_t tokens_at_pause = 0;
  int64_t output_tokens = 0;
  double precopy_ms = 0;
  double final_ms = 0;
  double rebuild_ms = 0;
  double probe_error = 0;
  int64_t tokens_rebuilt = 0;
  int64_t tokens_exact = 0;
  int rounds = 0;
  std::vector<int> omitted_layers;
  double transfer_seconds = 0;
  double replay_ms = 0;
  double encode_ms = 0;
  double decode_ms = 0;
  int64_t tokens_coded = 0;  // coded or in 8 bits
};

struct Fallback {
  Mode from = Mode::kUnspecified;
  Mode to = Mode::kUnspecified;
  absl::Status why;
};

struct Outcome {
  MigrationState state = MigrationState::kUnspecified;
  Mode mode = Mode::kUnspecified;
  std::string owner;
  std::string owner_address;
  uint64_t epoch = 0;
  int64_t start_index = 0;
  absl::Status error;
  MoveStats stats;
  double total_ms = 0;
  double commit_ms = 0;
  double pause_ms = 0;
  double predicted_ms = 0;
  std::string predictor_set;
  std::string profile;
};

using EventDetail = std::variant<std::monostate, Plan, RoundDone, PausedAt, MoveStats, Fallback, Outcome>;

struct JobEvent {
  uint64_t seq = 0;  // grows; may jump when a coordinator restarted
  MigrationState state = MigrationState::kUnspecified;
  uint32_t attempt = 0;
  uint64_t epoch = 0;
  absl::Time time;        // for people
  double elapsed_ms = 0;  // since ACCEPTED, monotonic
  EventDetail detail;
};

// One attempt as its job remembers it.
struct AttemptRecord {
  uint32_t attempt = 0;
  Mode mode = Mode::kUnspecified;
  std::string predictor_set;
  std::string profile;
  uint64_t epoch = 0;  // of the owner record when it opened
  WorkerName source;
  WorkerName destination;
  uint64_t leader_term = 0;
  Decision decision = Decision::kOpen;
  uint64_t new_epoch = 0;  // of the owner record after the decision, unless ABORTED
  int64_t start_index = 0;
  absl::Status error;  // why it was closed or rolled back
};

// Durable, keyed by the caller's migration id.
struct JobRecord {
  JobSpec spec;
  std::string body_digest;
  MigrationState state = MigrationState::kAccepted;
  WorkerName source;
  WorkerName destination;
  std::vector<AttemptRecord> attempts;
  std::vector<JobEvent> events;
  std::optional<Outcome> outcome;  // once terminal
  bool in_doubt = false;           // past its deadline with the store out of reach
  bool cancelled = false;          // by its caller: no attempt may open or commit, under a later coordinator either
  absl::Time accepted_at;
  absl::Time updated_at;
  uint64_t revision = 0;  // the store's; 0: not stored yet. Not part of the JSON

  const AttemptRecord* Find(uint32_t attempt) const;
  AttemptRecord* Find(uint32_t attempt);
  const AttemptRecord* last_attempt() const { return attempts.empty() ? nullptr : &attempts.back(); }
};

Fence FenceOf(const JobRecord& job, const AttemptRecord& attempt);

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_RECORDS_H_
