// Modes, states and decisions of a migration, and which state may follow which (protocol.md, 2). gRPC-free; the numbers
// are those of proto/riskkv/v1.
#ifndef RISKKV_COMMON_MIGRATION_STATES_H_
#define RISKKV_COMMON_MIGRATION_STATES_H_

#include <optional>
#include <string_view>

namespace riskkv {

enum class Mode { kUnspecified = 0, kAuto = 1, kFull = 2, kRisk = 3, kCoded = 4, kReplay = 5, kStay = 6 };

enum class MigrationState {
  kUnspecified = 0,
  kAccepted = 1,
  kPlanned = 2,
  kReserved = 3,
  kPrecopy = 4,
  kPaused = 5,
  kFinal = 6,
  kRebuilt = 7,
  kPrepared = 8,
  kCommitted = 9,
  kResumed = 10,
  kSucceeded = 11,
  kStayed = 12,
  kAborted = 13,
  kFailed = 14,
};

// What the owner record says of one attempt.
enum class Decision { kUnspecified = 0, kOpen = 1, kCommitted = 2, kAborted = 3, kResumed = 4, kRolledBack = 5 };

enum class OnFailure { kUnspecified = 0, kStay = 1, kReplay = 2, kFail = 3 };

// Names as in the protos, without their prefix: "RISK", "PREPARED", ...
std::string_view Name(Mode mode);
std::string_view Name(MigrationState state);
std::string_view Name(Decision decision);
std::string_view Name(OnFailure on_failure);
// nullopt for a name that is none of them.
std::optional<Mode> ParseMode(std::string_view name);
std::optional<MigrationState> ParseMigrationState(std::string_view name);
std::optional<Decision> ParseDecision(std::string_view name);
std::optional<OnFailure> ParseOnFailure(std::string_view name);

// RISK and CODED: the cache changes.
bool IsLossy(Mode mode);
bool IsTerminal(MigrationState state);
// Whether a job may go from `from` to `to` within one attempt. A state may repeat (rounds of pre-copy) and be skipped (the
// coordinator need not have heard of it), but never go back; STAYED and ABORTED are only possible before the decision,
// SUCCEEDED only after RESUMED; nothing follows a terminal state.
bool MayFollow(MigrationState from, MigrationState to);
// The same over attempts: (attempt, state) only grows, and no attempt follows a decision.
bool MayFollow(unsigned from_attempt, MigrationState from, unsigned to_attempt, MigrationState to);

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_STATES_H_
