#include "common/migration/states.h"

#include <array>
#include <utility>

namespace riskkv {
namespace {

template <typename Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Mode, 7> kModes = {{{Mode::kUnspecified, "UNSPECIFIED"},
                                    {Mode::kAuto, "AUTO"},
                                    {Mode::kFull, "FULL"},
                                    {Mode::kRisk, "RISK"},
                                    {Mode::kCoded, "CODED"},
                                    {Mode::kReplay, "REPLAY"},
                                    {Mode::kStay, "STAY"}}};

constexpr Names<MigrationState, 15> kStates = {{{MigrationState::kUnspecified, "UNSPECIFIED"},
                                                {MigrationState::kAccepted, "ACCEPTED"},
                                                {MigrationState::kPlanned, "PLANNED"},
                                                {MigrationState::kReserved, "RESERVED"},
                                                {MigrationState::kPrecopy, "PRECOPY"},
                                                {MigrationState::kPaused, "PAUSED"},
                                                {MigrationState::kFinal, "FINAL"},
                                                {MigrationState::kRebuilt, "REBUILT"},
                                                {MigrationState::kPrepared, "PREPARED"},
                                                {MigrationState::kCommitted, "COMMITTED"},
                                                {MigrationState::kResumed, "RESUMED"},
                                                {MigrationState::kSucceeded, "SUCCEEDED"},
                                                {MigrationState::kStayed, "STAYED"},
                                                {MigrationState::kAborted, "ABORTED"},
                                                {MigrationState::kFailed, "FAILED"}}};

constexpr Names<Decision, 6> kDecisions = {{{Decision::kUnspecified, "UNSPECIFIED"},
                                            {Decision::kOpen, "OPEN"},
                                            {Decision::kCommitted, "COMMITTED"},
                                            {Decision::kAborted, "ABORTED"},
                                            {Decision::kResumed, "RESUMED"},
                                            {Decision::kRolledBack, "ROLLED_BACK"}}};

constexpr Names<OnFailure, 4> kOnFailure = {{{OnFailure::kUnspecified, "UNSPECIFIED"},
                                             {OnFailure::kStay, "STAY"},
                                             {OnFailure::kReplay, "REPLAY"},
                                             {OnFailure::kFail, "FAIL"}}};

template <typename Enum, std::size_t N>
std::string_view NameIn(const Names<Enum, N>& names, Enum value) {
  for (const auto& [v, name] : names) {
    if (v == value) return name;
  }
  return "UNSPECIFIED";
}

template <typename Enum, std::size_t N>
std::optional<Enum> ParseIn(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [v, name] : names) {
    if (name == text) return v;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(Mode mode) { return NameIn(kModes, mode); }
std::string_view Name(MigrationState state) { return NameIn(kStates, state); }
std::string_view Name(Decision decision) { return NameIn(kDecisions, decision); }
std::string_view Name(OnFailure on_failure) { return NameIn(kOnFailure, on_failure); }

std::optional<Mode> ParseMode(std::string_view name) { return ParseIn(kModes, name); }
std::optional<MigrationState> ParseMigrationState(std::string_view name) { return ParseIn(kStates, name); }
std::optional<Decision> ParseDecision(std::string_view name) { return ParseIn(kDecisions, name); }
std::optional<OnFailure> ParseOnFailure(std::string_view name) { return ParseIn(kOnFailure, name); }

bool IsLossy(Mode mode) { return mode == Mode::kRisk || mode == Mode::kCoded; }

bool IsTerminal(MigrationState state) { return state >= MigrationState::kSucceeded; }

bool MayFollow(MigrationState from, MigrationState to) {
  if (IsTerminal(from)) return false;
  switch (to) {
    case MigrationState::kSucceeded:
      return from == MigrationState::kResumed;
    case MigrationState::kStayed:
    case MigrationState::kAborted:
      return from < MigrationState::kCommitted;
    case MigrationState::kFailed:
      return true;
    case MigrationState::kCommitted:
      return from <= MigrationState::kCommitted;
    case MigrationState::kResumed:
      return from == MigrationState::kCommitted || from == MigrationState::kResumed;
    default:
      return to >= from;
  }
}

bool MayFollow(unsigned from_attempt, MigrationState from, unsigned to_attempt, MigrationState to) {
  if (to_attempt < from_attempt) return false;
  if (to_attempt == from_attempt) return MayFollow(from, to);
  return from < MigrationState::kCommitted;
}

}  // namespace riskkv
