// Many moves, one in ten with a fault, in one process: every pool must be back at its start, and neither memory nor descriptors grow.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "CLI/CLI.hpp"
#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "tests/faults/cell.h"

namespace riskkv::faults {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(2);
constexpr const char* kPlaces[] = {"accepted", "planned", "reserved", "precopy", "paused", "final", "rebuilt", "prepared", "committed", "resumed"};

struct Usage {
  double rss_mb = 0;
  int descriptors = 0;
};

Usage Measure() {
  Usage usage;
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  usage.rss_mb = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (readdir(folder) != nullptr) ++usage.descriptors;
    closedir(folder);
  }
  return usage;
}

struct Options {
  int migrations = 10000;
  uint64_t seed = 1;
  double growth = 0.15;  // of the resident memory after the warm-up; allocators keep something
};

// One cluster for all of it; a request at a time, moved to and fro until it has ended.
class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {}

  int Run() {
    const absl::Time start = absl::Now();
    const int warm_up = options_.migrations / 5;
    Usage before, after;
    for (int i = 0; i < options_.migrations && violations_.empty(); ++i) {
      if (i == warm_up) before = Measure();
      Move(i);
    }
    EndRequest();
    after = Measure();
    CheckGrowth(before, after);
    for (const std::string& v : violations_) std::fprintf(stderr, "  ! %s\n", v.c_str());
    if (!violations_.empty()) std::fputs(scene_.cluster.Text().c_str(), stderr);
    fmt::print("soak: {} migrations ({} moved, {} with a fault), {} requests, {} broken; rss {:.1f} -> {:.1f} MB, descriptors {} -> {}, {:.1f} s\n",
               done_, moved_, faults_, requests_, violations_.size(), before.rss_mb, after.rss_mb, before.descriptors, after.descriptors,
               absl::ToDoubleSeconds(absl::Now() - start));
    return violations_.empty() ? 0 : 1;
  }

 private:
  void CheckGrowth(const Usage& before, const Usage& after) {
    if (after.rss_mb > before.rss_mb * (1 + options_.growth) + 4) {
      violations_.push_back(fmt::format("memory grew from {:.1f} to {:.1f} MB", before.rss_mb, after.rss_mb));
    }
    if (after.descriptors > before.descriptors) {
      violations_.push_back(fmt::format("descriptors grew from {} to {}", before.descriptors, after.descriptors));
    }
  }

  // Where the request is; empty when nobody knows or it has ended.
  std::string Owner(uint64_t* epoch) {
    auto record = scene_.cluster.disk.store.GetOwner(scene_.request_id);
    *epoch = record.ok() ? record->epoch : 1;
    return record.ok() ? record->owner.id : "a";
  }

  void EnsureRequest() {
    auto client = scene_.TheClient();
    if (client != nullptr && !client->finished() && client->received() < kMaxTokens - 300 && on_request_ < 200) return;
    EndRequest();
    scene_.cluster.trace.Reset();
    scene_.Begin();
    on_request_ = 0;
    ++requests_;
  }

  // The whole account of one request: every token once, all given back, both workers serve.
  void EndRequest() {
    if (requests_ == 0) return;
    scene_.CheckAfter(migration_, violations_);
    scene_.TheClient()->Stop();
  }

  void Move(int number) {
    EnsureRequest();
    ++on_request_;
    uint64_t epoch = 1;
    const std::string owner = Owner(&epoch);
    const std::string to = owner == "a" ? "b" : "a";
    migration_ = fmt::format("soak{}", number);
    const bool faulty = number % 10 == 9;
    if (faulty) Arm(owner, to);
    absl::Status started;
    Cluster::Eventually(
        [&] {
          started = scene_.StartJob(migration_, number % 2 == 0 ? Mode::kFull : Mode::kRisk, epoch, to, kDeadline);
          return !absl::IsUnavailable(started);
        },
        absl::Seconds(10));
    ++done_;
    if (started.ok()) Await();
    Failpoints::Get().Clear(migration_);
    if (!faulty) return;
    ++faults_;
    scene_.cluster.Heal();
    AfterFault();
  }

  void Await() {
    absl::StatusOr<JobRecord> job;
    const bool ended = Cluster::Eventually(
        [&] {
          job = scene_.Record(migration_);
          return job.ok() && IsTerminal(job->state);
        },
        kPatience);
    if (!ended) violations_.push_back(migration_ + " does not end");
    if (ended && job->state == MigrationState::kSucceeded) ++moved_;
  }

  void AfterFault() {
    auto client = scene_.TheClient();
    const int64_t before = client->received();
    const bool goes_on = Cluster::Eventually([&] { return client->finished() || !client->failure().ok() || client->received() > before + 1; }, kPatience);
    if (!goes_on) violations_.push_back(fmt::format("{}: the request does not go on: {}", migration_, client->Text()));
  }

  void Arm(const std::string& owner, const std::string& to) {
    const std::string place = kPlaces[random_() % std::size(kPlaces)];
    const int kind = static_cast<int>(random_() % 9);
    auto once = std::make_shared<std::atomic<bool>>(false);
    Failpoints::Get().Set(place, migration_, [this, once, kind, owner, to] {
      if (!once->exchange(true)) Strike(kind, owner, to);
    });
  }

  void Strike(int kind, const std::string& owner, const std::string& to) {
    Cluster& c = scene_.cluster;
    const absl::Duration back = absl::Milliseconds(10);
    switch (kind) {
      case 0: return c.Kill(owner, back);
      case 1: return c.Kill(to, back);
      case 2: return c.Kill(kCoordinatorId, back);
      case 3: return c.Pause(to, absl::Milliseconds(60));
      case 4: c.network.flips = 1; return;
      case 5: c.disk.lose_answers = 1; return;
      case 6: return c.network.Cut("a", "b");
      default:
        for (Message m : ControlMessages()) c.network.Add({m, kind == 7 ? Trouble::kLoseReply : Trouble::kReorder, 1});
    }
  }

  const Options options_;
  std::mt19937_64 random_;
  Scene scene_;
  std::string migration_;
  std::vector<std::string> violations_;
  int done_ = 0, moved_ = 0, faults_ = 0, requests_ = 0, on_request_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Moves a request to and fro, one time in ten with a fault, and looks for what is left behind."};
  app.add_option("--migrations", options.migrations, "how many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", options.seed, "of the faults")->capture_default_str();
  app.add_option("--growth", options.growth, "of the resident memory that is allowed after the first fifth")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Oracle();
  return Soak(options).Run();
}

}  // namespace
}  // namespace riskkv::faults

int main(int argc, char** argv) { return riskkv::faults::Main(argc, argv); }
