// Many moves, one in ten with a fault, in one process: every pool must be back at its start, and neither memory nor descriptors grow.
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
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

// Between two requests, when nothing is under way.
struct Usage {
  double heap_mb = 0;  // what is allocated and not freed
  double rss_mb = 0;
  int descriptors = 0;
  int threads = 0;
};

int Entries(const char* path) {
  int count = 0;
  if (DIR* folder = opendir(path)) {
    while (readdir(folder) != nullptr) ++count;
    closedir(folder);
  }
  return count;
}

Usage Measure() {
  malloc_trim(0);  // what is free goes back: the rest is held, or lost between what is held
  Usage usage;
  const struct mallinfo2 heap = mallinfo2();
  usage.heap_mb = static_cast<double>(heap.uordblks + heap.hblkhd) / 1e6;
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  usage.rss_mb = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
  usage.descriptors = Entries("/proc/self/fd");
  usage.threads = Entries("/proc/self/task");
  return usage;
}

template <typename T>
T Median(const std::vector<Usage>& samples, std::size_t begin, std::size_t end, T Usage::*field) {
  std::vector<T> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(samples[i].*field);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Options {
  int migrations = 10000;
  int per_request = 50;
  uint64_t seed = 1;
  // The tables hold more or less with each restart, so there is a little room for noise; none for growth with the number of moves.
  double heap_mb = 1;
  double rss_mb = 3;
  bool samples = false;
};

// One cluster for all of it; a request at a time, moved to and fro until it has ended.
class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {}

  int Run() {
    const absl::Time start = absl::Now();
    for (int i = 0; i < options_.migrations && violations_.empty(); ++i) Move(i);
    EndRequest();
    if (violations_.empty()) CheckGrowth();
    for (const std::string& v : violations_) std::fprintf(stderr, "  ! %s\n", v.c_str());
    if (!violations_.empty()) std::fputs(scene_.cluster.Text().c_str(), stderr);
    fmt::print("soak: {} migrations ({} moved, {} with a fault), {} requests, {} broken; second quarter -> last: {}; {:.1f} s\n", done_,
               moved_, faults_, requests_, violations_.size(), growth_, absl::ToDoubleSeconds(absl::Now() - start));
    return violations_.empty() ? 0 : 1;
  }

 private:
  // Medians of the second quarter, when tables and arenas have filled, and of the last.
  void CheckGrowth() {
    const std::size_t n = samples_.size();
    if (n < 8) {
      violations_.push_back(fmt::format("{} requests say nothing about growth: at least 8 are needed", n));
      return;
    }
    auto early = [&](auto field) { return Median(samples_, n / 4, n / 2, field); };
    auto late = [&](auto field) { return Median(samples_, n - n / 4, n, field); };
    const double heap = late(&Usage::heap_mb) - early(&Usage::heap_mb), rss = late(&Usage::rss_mb) - early(&Usage::rss_mb);
    growth_ = fmt::format("heap {:.2f} -> {:.2f} MB, rss {:.2f} -> {:.2f} MB, descriptors {} -> {}, threads {} -> {}",
                          early(&Usage::heap_mb), late(&Usage::heap_mb), early(&Usage::rss_mb), late(&Usage::rss_mb),
                          early(&Usage::descriptors), late(&Usage::descriptors), early(&Usage::threads), late(&Usage::threads));
    if (heap > options_.heap_mb) violations_.push_back(fmt::format("the heap grew by {:.2f} MB", heap));
    if (rss > options_.rss_mb) violations_.push_back(fmt::format("resident memory grew by {:.2f} MB", rss));
    if (late(&Usage::descriptors) > early(&Usage::descriptors)) violations_.push_back("descriptors grew");
    if (late(&Usage::threads) > early(&Usage::threads)) violations_.push_back("threads grew");
  }

  // Where the request is; empty when nobody knows or it has ended.
  std::string Owner(uint64_t* epoch) {
    auto record = scene_.cluster.disk.store.GetOwner(scene_.request_id);
    *epoch = record.ok() ? record->epoch : 1;
    return record.ok() ? record->owner.id : "a";
  }

  void EnsureRequest() {
    auto client = scene_.TheClient();
    if (client != nullptr && !client->finished() && client->received() < kMaxTokens - 300 && on_request_ < options_.per_request) return;
    EndRequest();
    scene_.Begin();
    on_request_ = 0;
    ++requests_;
  }

  // The whole account of one request: every token once, all given back, both workers serve.
  void EndRequest() {
    if (requests_ == 0) return;
    scene_.CheckAfter(migration_, violations_);
    scene_.TheClient()->Stop();
    if (violations_.empty()) scene_.cluster.trace.Reset();
    samples_.push_back(Measure());
    const Usage& u = samples_.back();
    if (options_.samples) fmt::print("{} {:.3f} {:.3f} {} {}\n", done_, u.heap_mb, u.rss_mb, u.descriptors, u.threads);
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
  std::vector<Usage> samples_;
  std::string growth_ = "not measured";
  int done_ = 0, moved_ = 0, faults_ = 0, requests_ = 0, on_request_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Moves a request to and fro, one time in ten with a fault, and looks for what is left behind."};
  app.add_option("--migrations", options.migrations, "how many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", options.seed, "of the faults")->capture_default_str();
  app.add_option("--moves-per-request", options.per_request, "then it is cancelled and the next begins: memory is measured in between")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heap-mb", options.heap_mb, "the heap may grow by, from the second quarter to the last")->capture_default_str();
  app.add_option("--rss-mb", options.rss_mb, "resident memory may grow by")->capture_default_str();
  app.add_flag("--samples", options.samples, "print each: moves, heap and resident MB, descriptors, threads");
  CLI11_PARSE(app, argc, argv);
  // With an arena for each of the threads that come and go, what is free between what is held would hide a leak.
  mallopt(M_ARENA_MAX, 2);
  Oracle();
  return Soak(options).Run();
}

}  // namespace
}  // namespace riskkv::faults

int main(int argc, char** argv) { return riskkv::faults::Main(argc, argv); }
