// A manager over a scripted world: workers A, B and C of one model, request bootA-01 on A, a clock that only tests move.
#ifndef RISKKV_TESTS_UNIT_COORDINATOR_MANAGER_FIXTURE_H_
#define RISKKV_TESTS_UNIT_COORDINATOR_MANAGER_FIXTURE_H_

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/store/memory_store.h"
#include "common/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/coordinator/core/migration_manager.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/coordinator/scripted_worker_api.h"

namespace riskkv::coordinator {

// A store whose next commits fail as told; reads too when `down`.
class FlakyStore : public Store {
 public:
  explicit FlakyStore(Store* store) : store_(store) {}
  std::atomic<bool> down{false};
  std::atomic<bool> lose_answer{false};  // the next commit is written, and answered UNAVAILABLE

  uint64_t leader_term() const override { return store_->leader_term(); }
  std::string name() const override { return store_->name(); }
  absl::StatusOr<OwnerRecord> GetOwner(const std::string& id) override { return down ? Down() : store_->GetOwner(id); }
  absl::StatusOr<JobRecord> GetJob(const std::string& id) override {
    if (down) return Down();
    return store_->GetJob(id);
  }
  absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) override { return store_->ListJobs(filter); }
  absl::StatusOr<Revisions> Commit(const Transaction& t) override {
    if (down) return Down();
    auto written = store_->Commit(t);
    if (lose_answer.exchange(false)) return Down();
    return written;
  }
  absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) override { return store_->Counters(prefix); }
  absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) override { return store_->PruneJobs(before, keep); }
  absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) override {
    return store_->ListOwners(after, limit);
  }
  absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) override { return store_->RemoveOwner(record); }

 private:
  static absl::Status Down() { return MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", "the store is away"); }
  Store* const store_;
};

inline constexpr char kRequest[] = "bootA-01";

class ManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "riskkv-manager-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    OpenStore();
    for (const char* id : {"A", "B", "C"}) Register(id);
    api_.SetRequest(Request(1));
    api_.on_move = [this](ScriptedStream& stream, const StartMoveArgs& args) { GoodMove(stream, args); };
    options_.tick = absl::Milliseconds(2);
    options_.store_retry = absl::Milliseconds(2);
    options_.stats_wait = absl::Milliseconds(200);
    StartManager();
  }
  void TearDown() override {
    StopManager();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void OpenStore() {
    store_.reset();
    store_ = SqliteStore::Open({.path = folder_ + "/store.db"}).value();
    flaky_ = std::make_unique<FlakyStore>(store_.get());
  }
  void StartManager() {
    auto manager = MigrationManager::Start(options_, {.store = flaky_.get(),
                                                      .clock = &clock_,
                                                      .registry = registry_.get(),
                                                      .links = &links_,
                                                      .corrections = &corrections_,
                                                      .api = &api_,
                                                      .log = NullLogger()});
    ASSERT_OK(manager);
    manager_ = *std::move(manager);
    live_ = manager_.get();
  }
  void StopManager() {
    stopping_ = true;
    live_ = nullptr;
    Eventually([&] { return calls_ == 0; });  // a server ends its calls before what they use is gone
    manager_.reset();
    api_.Join();
    stopping_ = false;
  }
  // The coordinator dies and another one starts on its file; workers register again.
  void Restart() {
    StopManager();
    OpenStore();
    registry_ = std::make_unique<WorkerRegistry>(&clock_, absl::Seconds(10));
    for (const char* id : {"A", "B", "C"}) Register(id);
    StartManager();
  }

  WorkerInfo Worker(const std::string& id, const std::string& boot) {
    WorkerInfo info;
    info.name = {.id = id, .boot_id = boot, .address = id + ":1"};
    info.fingerprint.architecture = "llama";
    info.fingerprint.layout.n_layer = 30;
    info.fingerprint.layout.n_head_kv = 3;
    info.fingerprint.layout.head_dim = 64;
    info.costs = {.prefill_p1 = 0.003, .decode_s = 0.01, .rebuild_s = 1e-6, .import_s = 1e-6, .export_s = 1e-6};
    info.load.cells_total = 1000;
    return info;
  }
  void Register(const std::string& id, std::string boot = "") {
    if (boot.empty()) boot = "boot" + id;
    ASSERT_OK(registry_->Register(Worker(id, boot)));
  }
  SetInfo Set(const std::string& digest = "set1", bool gated = true) {
    SetInfo set;
    set.digest = digest;
    set.fingerprint = Worker("A", "x").fingerprint;
    set.file_bytes = 1 << 20;
    set.groups = {{.predictor_bytes = 1000}, {.predictor_bytes = 2000}};
    set.profiles = {{.name = "small", .groups = {0}, .omitted_layers = {2, 3}, .gated = gated, .first_exact = 4, .last_exact = 128},
                    {.name = "large", .groups = {0, 1}, .omitted_layers = {2, 3, 6, 7}, .gated = gated, .first_exact = 4,
                     .last_exact = 128}};
    return set;
  }
  void GiveSet(const std::string& id, SetInfo set) {
    WorkerInfo info = Worker(id, "boot" + id);
    info.sets = {std::move(set)};
    ASSERT_OK(registry_->Register(info));
  }
  static RequestInfo Request(uint64_t epoch) {
    RequestInfo info;
    info.request_id = kRequest;
    info.epoch = epoch;
    info.prompt_tokens = 1000;
    info.output_tokens = 20;
    info.n_kv = 1019;
    info.max_tokens = 500;
    return info;
  }
  static JobSpec Spec(const std::string& id = "m1") {
    JobSpec spec;
    spec.migration_id = id;
    spec.request_id = kRequest;
    spec.expected_epoch = 1;
    spec.destination = "B";
    spec.mode = Mode::kFull;
    return spec;
  }

  // For scripts: a job that goes on after a restart may start one before Start has returned. Null when stopping.
  MigrationManager* Live() {
    while (!stopping_ && live_ == nullptr) absl::SleepFor(absl::Milliseconds(1));
    return live_;
  }
  // Asks again while the coordinator cannot say, as workers do.
  template <typename Call>
  DecisionReply Ask(Call call) {
    for (;;) {
      ++calls_;
      auto reply = stopping_ ? decltype(call())(DecisionReply{}) : call();
      --calls_;
      if (reply.ok() || stopping_) return reply.value_or(DecisionReply{});
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  void UpToFinal(ScriptedStream& stream, const StartMoveArgs& args) {
    stream.Say(MigrationState::kPrecopy, RoundDone{.round = 1, .frontier = 1000, .n_tokens = 1021});
    stream.Say(MigrationState::kPrecopy, RoundDone{.round = 2, .frontier = 1020, .n_tokens = 1022});
    stream.Say(MigrationState::kPaused, PausedAt{.n_tokens = 1022, .remaining_cells = 1});
    stream.Say(MigrationState::kFinal);
    // The final copy takes its time: the coordinator has heard all of this before the destination is prepared.
    MigrationManager* live = Live();
    if (live == nullptr) return;
    auto job = live->Find(args.fence.migration_id);
    if (job.ok()) Eventually([&] { return stopping_ || (*job)->state() >= MigrationState::kFinal; });
  }
  // A source and a destination that do everything right.
  void GoodMove(ScriptedStream& stream, const StartMoveArgs& args) {
    UpToFinal(stream, args);
    MigrationManager* live = Live();
    if (live == nullptr) return stream.End(absl::OkStatus());
    DecisionReply decision = Ask([&] { return live->Prepared(args.fence, 22); });
    stream.Say(MigrationState::kPrepared,
               MoveStats{.bytes_sent = 100, .tokens_at_pause = 1022, .output_tokens = 22, .transfer_seconds = 0.1});
    if (decision.decision == Decision::kCommitted) {
      api_.SetRequest(Request(decision.epoch));
      Ask([&] { return live->Resumed(args.fence, decision.epoch); });
    }
    stream.End(absl::OkStatus());
  }

  JobRecord Await(const std::string& id, absl::Duration timeout = absl::Seconds(20)) {
    auto job = manager_->Find(id);
    EXPECT_OK(job);
    if (!job.ok()) return {};
    return Await(**job, timeout);
  }
  static JobRecord Await(const Job& job, absl::Duration timeout = absl::Seconds(20)) {
    absl::Time until = absl::Now() + timeout;
    while (absl::Now() < until && !IsTerminal(job.state())) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_TRUE(IsTerminal(job.state())) << "still " << Name(job.state());
    return job.Snapshot();
  }
  // Runs a job to its end.
  JobRecord RunJob(const JobSpec& spec) {
    auto job = manager_->StartJob(spec);
    EXPECT_OK(job);
    return job.ok() ? Await(**job) : JobRecord();
  }
  static std::vector<std::string> States(const JobRecord& job) {
    std::vector<std::string> names;
    for (const JobEvent& event : job.events) names.emplace_back(Name(event.state));
    return names;
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(2));
    return condition();
  }
  OwnerRecord Owner() { return store_->GetOwner(kRequest).value_or(OwnerRecord()); }
  // Moves the clock on in small steps, so that everybody sees each, while `alive` workers renew.
  void Pass(absl::Duration d, const std::vector<std::string>& alive) {
    for (absl::Duration done; done < d; done += absl::Seconds(1)) {
      clock_.Advance(absl::Seconds(1));
      for (const std::string& id : alive) (void)registry_->Renew({.worker_id = id, .boot_id = "boot" + id});
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  // The script says everything up to FINAL and then waits, each time it is started.
  std::shared_ptr<Job> UpToFinalAndWait() {
    api_.on_move = [this](ScriptedStream& stream, const StartMoveArgs& args) {
      fence_ = args.fence;
      UpToFinal(stream, args);
      stream.AwaitCancel(absl::Seconds(20));
    };
    auto job = manager_->StartJob(Spec());
    EXPECT_OK(job);
    EXPECT_TRUE(Eventually([&] { return (*job)->state() == MigrationState::kFinal; }));
    return *job;
  }

  FakeClock clock_;
  std::string folder_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<FlakyStore> flaky_;
  std::unique_ptr<WorkerRegistry> registry_ = std::make_unique<WorkerRegistry>(&clock_, absl::Seconds(10));
  cost::LinkTable links_{&clock_};
  cost::Corrections corrections_;
  ScriptedWorkerApi api_;
  ManagerOptions options_;
  Fence fence_;  // of the newest move, where the script keeps it
  std::atomic<bool> stopping_{false};
  std::atomic<int> calls_{0};  // of scripted workers, in the manager
  std::unique_ptr<MigrationManager> manager_;
  std::atomic<MigrationManager*> live_{nullptr};
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_TESTS_UNIT_COORDINATOR_MANAGER_FIXTURE_H_
