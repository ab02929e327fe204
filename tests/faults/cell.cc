// The faults, and the cells that are made of them.
#include "tests/faults/cell.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::faults {
namespace {

constexpr absl::Duration kBack = absl::Milliseconds(20);        // a supervisor's restart
constexpr absl::Duration kLongerThanLease = absl::Milliseconds(230);
constexpr absl::Duration kShortDeadline = absl::Milliseconds(150);

using Act = std::function<void(Scene&)>;

void Everything(Scene& s, Trouble trouble, int times = 1) {
  for (Message m : ControlMessages()) s.cluster.network.Add({m, trouble, times});
}

void FillPool(Scene& s) {
  WorkerPtr b = s.cluster.Worker("b");
  if (b == nullptr) return;
  const worker::ManagerLoad load = b->manager->Load();
  auto held = b->manager->Reserve(load.cells_total - load.cells_used);
  if (held.ok()) s.cluster.After(kLongerThanLease, [b, held] { b->manager->Release(*held); });
}

void ForAWhile(Scene& s, std::atomic<bool>& flag, absl::Duration time) {
  flag = true;
  s.cluster.After(time, [&flag] { flag = false; });
}

void CutFor(Scene& s, const std::vector<std::pair<std::string, std::string>>& links) {
  for (const auto& [x, y] : links) s.cluster.network.Cut(x, y);
  s.cluster.After(kLongerThanLease, [&s] { s.cluster.network.MendAll(); });
}

void CancelMigration(Scene& s) {
  s.Order([&s] { s.CancelMigration(); });
}

void CancelRequest(Scene& s) {
  s.Order([&s] { s.TheClient()->Cancel(); });
}

// Whoever is to end it cannot be reached for a while.
template <typename Trouble>
Act CancelThough(void (*cancel)(Scene&), Trouble trouble) {
  return [cancel, trouble](Scene& s) {
    trouble(s);
    cancel(s);
  };
}

// The destination commits, dies, and is there again when FINAL arrives a second time.
void FinalAgain(Scene& s) {
  s.cluster.network.finals_again = 1;
  Failpoints::Get().Set("committed", s.migration_id, [&s] {
    s.cluster.Kill("b", absl::Milliseconds(5));
    s.cluster.network.Add({Message::kDecide, Trouble::kDrop, 40});
    s.cluster.network.Add({Message::kResolve, Trouble::kDrop, 40});
  });
}

// Never reached while both are one transaction.
void DieBetweenTransactions(Scene& s) {
  auto hits = std::make_shared<std::atomic<int>>(0);
  Failpoints::Get().Set("between two transactions", s.migration_id, [&s, hits] {
    if (++*hits == 2) s.cluster.Kill(kCoordinatorId, kBack);
  });
}

const std::map<std::string, Act>& Faults() {
  static const auto* const faults = new std::map<std::string, Act>{
      {"none", [](Scene&) {}},
      {"kill source", [](Scene& s) { s.cluster.Kill("a", kBack); }},
      {"kill source for long", [](Scene& s) { s.cluster.Kill("a", kLongerThanLease); }},
      {"kill destination", [](Scene& s) { s.cluster.Kill("b", kBack); }},
      {"kill destination for long", [](Scene& s) { s.cluster.Kill("b", kLongerThanLease); }},
      {"kill coordinator", [](Scene& s) { s.cluster.Kill(kCoordinatorId, kBack); }},
      {"kill coordinator and source", [](Scene& s) { s.cluster.Kill(kCoordinatorId, kBack), s.cluster.Kill("a", kBack); }},
      {"kill coordinator and destination", [](Scene& s) { s.cluster.Kill(kCoordinatorId, kBack), s.cluster.Kill("b", kBack); }},
      {"kill client", [](Scene& s) { s.Order([&s] { s.ReplaceClient(); }); }},
      {"pause source", [](Scene& s) { s.cluster.Pause("a", kLongerThanLease); }},
      {"pause destination", [](Scene& s) { s.cluster.Pause("b", kLongerThanLease); }},
      {"pause coordinator", [](Scene& s) { s.cluster.Pause(kCoordinatorId, kLongerThanLease); }},
      {"drop", [](Scene& s) { Everything(s, Trouble::kDrop); }},
      {"drop often", [](Scene& s) { Everything(s, Trouble::kDrop, 4); }},
      {"lose replies", [](Scene& s) { Everything(s, Trouble::kLoseReply); }},
      {"delay", [](Scene& s) { Everything(s, Trouble::kDelay); }},
      {"double", [](Scene& s) { Everything(s, Trouble::kDouble); }},
      {"reorder", [](Scene& s) { Everything(s, Trouble::kReorder); }},
      {"drop data", [](Scene& s) { s.cluster.network.Add({Message::kPush, Trouble::kDrop, 1}); }},
      {"double data", [](Scene& s) { s.cluster.network.Add({Message::kPush, Trouble::kDouble, 3}); }},
      {"flip a bit", [](Scene& s) { s.cluster.network.flips = 1; }},
      {"flip bits", [](Scene& s) { s.cluster.network.flips = 1000; }},
      {"stall data", [](Scene& s) { s.cluster.network.Add({Message::kPush, Trouble::kStall, 3}); }},
      {"fill the pool", FillPool},
      {"fill the disk", [](Scene& s) { ForAWhile(s, s.cluster.disk.full, absl::Milliseconds(60)); }},
      {"store away", [](Scene& s) { ForAWhile(s, s.cluster.disk.unreachable, absl::Milliseconds(60)); }},
      {"store away past the deadline", [](Scene& s) { ForAWhile(s, s.cluster.disk.unreachable, 2 * kShortDeadline); }},
      {"store loses an answer", [](Scene& s) { s.cluster.disk.lose_answers = 1; }},
      {"cut source from coordinator", [](Scene& s) { CutFor(s, {{"a", kCoordinatorId}}); }},
      {"cut destination from coordinator", [](Scene& s) { CutFor(s, {{"b", kCoordinatorId}}); }},
      {"cut workers", [](Scene& s) { CutFor(s, {{"a", "b"}}); }},
      {"cut everything", [](Scene& s) { CutFor(s, {{"a", "b"}, {"a", kCoordinatorId}, {"b", kCoordinatorId}}); }},
      {"client comes back", [](Scene& s) { s.Order([&s] { s.TheClient()->Disconnect(absl::Milliseconds(30)); }); }},
      {"client attaches twice", [](Scene& s) { s.Order([&s] { s.TheClient()->AttachTwice(); }); }},
      {"cancel the request", CancelRequest},
      {"cancel the request, cut from its client", CancelThough(CancelRequest, [](Scene& s) { CutFor(s, {{kClientId, "a"}, {kClientId, "b"}}); })},
      {"cancel the request, workers cut", CancelThough(CancelRequest, [](Scene& s) { CutFor(s, {{"a", "b"}}); })},
      {"cancel the request, no coordinator", CancelThough(CancelRequest, [](Scene& s) { s.cluster.Kill(kCoordinatorId, kLongerThanLease); })},
      {"cancel the request, store away", CancelThough(CancelRequest, [](Scene& s) { ForAWhile(s, s.cluster.disk.unreachable, kLongerThanLease); })},
      {"cancel the request, source paused", CancelThough(CancelRequest, [](Scene& s) { s.cluster.Pause("a", kLongerThanLease); })},
      {"cancel the request, destination paused", CancelThough(CancelRequest, [](Scene& s) { s.cluster.Pause("b", kLongerThanLease); })},
      {"cancel the migration", CancelMigration},
      {"cancel the migration, workers cut", CancelThough(CancelMigration, [](Scene& s) { CutFor(s, {{"a", "b"}}); })},
      {"cancel the migration, source cut", CancelThough(CancelMigration, [](Scene& s) { CutFor(s, {{"a", kCoordinatorId}}); })},
      {"cancel the migration, destination cut", CancelThough(CancelMigration, [](Scene& s) { CutFor(s, {{"b", kCoordinatorId}}); })},
      {"cancel the migration, source paused", CancelThough(CancelMigration, [](Scene& s) { s.cluster.Pause("a", kLongerThanLease); })},
      {"cancel the migration, destination paused", CancelThough(CancelMigration, [](Scene& s) { s.cluster.Pause("b", kLongerThanLease); })},
      {"cancel, and PREPARED comes late",
       [](Scene& s) {
         s.cluster.network.Add({Message::kPrepared, Trouble::kReorder, 1});
         CancelMigration(s);
       }},
      {"FINAL again to a restarted destination", FinalAgain},
      {"coordinator dies between transactions", DieBetweenTransactions},
      {"store away for longer than a lease", [](Scene& s) { ForAWhile(s, s.cluster.disk.unreachable, kLongerThanLease); }},
      {"pause destination, source unheard",
       [](Scene& s) {
         s.cluster.Pause("b", kLongerThanLease);
         s.cluster.network.Add({Message::kMoveEvents, Trouble::kDrop, 1});
         s.cluster.network.Add({Message::kQueryAttempt, Trouble::kDrop, 8});
       }},
      {"deadline passes", [](Scene&) { absl::SleepFor(2 * kShortDeadline); }},
  };
  return *faults;
}

constexpr const char* kStates[] = {"ACCEPTED", "PLANNED", "RESERVED", "PRECOPY", "PAUSED", "FINAL", "REBUILT", "PREPARED", "COMMITTED", "RESUMED"};
constexpr const char* kMessageFault = "message ";  // "message Final: drop"

// Faults of one state only.
const std::map<std::string, std::string>& OnlyAt() {
  static const auto* const only = new std::map<std::string, std::string>{
      {"cancel, and PREPARED comes late", "PREPARED"},
      {"FINAL again to a restarted destination", "FINAL"},
      {"coordinator dies between transactions", "ACCEPTED"},
  };
  return *only;
}

std::string PlaceOf(std::string state) {
  std::transform(state.begin(), state.end(), state.begin(), [](unsigned char c) { return std::tolower(c); });
  return state;
}

bool ShortOfTime(const std::string& fault) { return fault.find("deadline") != std::string::npos; }

// A rule "message M: trouble" from the start on.
bool AddMessageFault(const std::string& fault, Network& network) {
  if (fault.rfind(kMessageFault, 0) != 0) return false;
  for (Message m : ControlMessages()) {
    for (int t = 0; t <= static_cast<int>(Trouble::kStall); ++t) {
      const auto trouble = static_cast<Trouble>(t);
      if (fault == fmt::format("{}{}: {}", kMessageFault, Name(m), Name(trouble))) network.Add({m, trouble, 2});
    }
  }
  return true;
}

// The job's end, and whether it came in time.
void AwaitEnd(Scene& s, absl::Time start, absl::Duration deadline, bool may_be_late, absl::Duration patience, CellResult& result) {
  absl::StatusOr<JobRecord> job;
  const bool ended = Cluster::Eventually(
      [&] {
        job = s.Record(s.migration_id);
        return (job.ok() && IsTerminal(job->state));
      },
      patience);
  const absl::Duration took = absl::Now() - start;
  if (const int64_t at = s.job_cancelled_us; at != 0 && ended) result.cancel_job_ms = absl::ToDoubleMilliseconds(absl::Now() - absl::FromUnixMicros(at));
  if (!job.ok()) {
    result.outcome = "no job";
    return;
  }
  result.outcome = fmt::format("{} {}", Name(job->state), job->outcome ? ReasonOf(job->outcome->error) : "");
  if (!ended) result.violations.push_back(fmt::format("the job is still {} after {}", Name(job->state), absl::FormatDuration(took)));
  // A restarted coordinator gives what it finds committed a deadline anew.
  if (ended && !may_be_late && took > 2 * deadline + absl::Seconds(3)) {
    result.violations.push_back(fmt::format("the job outlived its deadline of {}: it took {}", absl::FormatDuration(deadline), absl::FormatDuration(took)));
  }
}

// A hung-up stream ends in under 100 ms, whoever is out of reach; the rest is slack for a busy machine.
constexpr double kStreamEndsMs = 500;

void MeasureCancels(Scene& s, CellResult& result) {
  if (const auto cancelled = s.TheClient()->cancelled()) {
    result.cancel_ms = cancelled->ms;
    result.cancelled_by_worker = cancelled->by_worker;
  }
  if (result.cancel_ms > kStreamEndsMs) result.violations.push_back(fmt::format("the cancelled stream took {:.0f} ms to end", result.cancel_ms));
  if (result.cancel_job_ms > kStreamEndsMs) {
    result.violations.push_back(fmt::format("the cancelled migration took {:.0f} ms to end", result.cancel_job_ms));
  }
}

}  // namespace

std::string CellSpec::Name() const { return fmt::format("{} | {} | {}", riskkv::Name(mode), state, fault); }

std::vector<CellSpec> AllCells() {
  std::vector<CellSpec> cells;
  for (Mode mode : {Mode::kFull, Mode::kRisk}) {
    for (const char* state : kStates) {
      for (const auto& [fault, act] : Faults()) {
        auto only = OnlyAt().find(fault);
        if (only == OnlyAt().end() || only->second == state) cells.push_back({state, fault, mode});
      }
    }
    for (Message m : ControlMessages()) {
      for (int t = 0; t <= static_cast<int>(Trouble::kStall); ++t) {
        cells.push_back({"START", fmt::format("{}{}: {}", kMessageFault, Name(m), Name(static_cast<Trouble>(t))), mode});
      }
    }
  }
  return cells;
}

CellResult RunCell(const CellSpec& spec, absl::Duration patience) {
  static std::atomic<int> cells{0};
  CellResult result;
  result.spec = spec;
  const absl::Time start = absl::Now();
  Scene s(patience);
  s.migration_id = fmt::format("m{}", ++cells);
  s.Begin();
  auto reached = std::make_shared<std::atomic<bool>>(false);
  if (AddMessageFault(spec.fault, s.cluster.network)) {
    *reached = true;
  } else {
    Failpoints::Get().Set(PlaceOf(spec.state), s.migration_id, [&s, reached, act = Faults().at(spec.fault)] {
      if (!reached->exchange(true)) act(s);
    });
  }
  const absl::Duration deadline = ShortOfTime(spec.fault) ? kShortDeadline : s.cluster.times.deadline;
  const absl::Time began = absl::Now();
  absl::Status started;
  Cluster::Eventually(
      [&] {
        started = s.StartJob(s.migration_id, spec.mode, 1, "b", deadline);
        return !absl::IsUnavailable(started) && !absl::IsDeadlineExceeded(started);
      },
      absl::Seconds(5));
  if (!started.ok()) result.violations.push_back("the job does not start: " + started.ToString());
  AwaitEnd(s, began, deadline, spec.fault.find("store") != std::string::npos || spec.fault.find("disk") != std::string::npos, patience, result);
  Cluster::Eventually([&] { return s.cluster.network.late == 0; }, absl::Seconds(2));
  s.cluster.Heal();
  s.CheckAfter(s.migration_id, result.violations);
  result.reached = *reached;
  MeasureCancels(s, result);
  if (!result.ok()) result.text = s.cluster.Text();
  result.ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  return result;
}

}  // namespace riskkv::faults
