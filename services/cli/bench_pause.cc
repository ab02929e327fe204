#include "services/cli/bench_pause.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/bench/pause_report.h"
#include "services/cli/demo/cluster.h"
#include "services/cli/demo/predictors.h"
#include "services/cli/demo/prompt_text.h"
#include "services/cli/exit_code.h"
#include "services/cli/interrupt.h"
#include "services/cli/names.h"
#include "services/cli/rpc.h"
#include "services/cli/table.h"
#include "services/client/migration_follower.h"
#include "services/client/request_stream.h"

namespace riskkv::cli {
namespace {

using bench::PauseSample;
using client::RequestStream;

constexpr absl::Duration kBenchPoll = absl::Milliseconds(100);
constexpr absl::Duration kBenchSilence = absl::Seconds(900);  // the longest prompt on a slow machine
constexpr std::size_t kSampleChars = 1500;  // of text, to learn how many characters a token has
constexpr int kBenchDeadlineMs = 120000;
constexpr int kCalm = 16;  // tokens between two moves: the step is measured on them
constexpr int kMargin = 1200;
constexpr int kLongestPrecopy = 400;  // tokens that may be decoded meanwhile

struct PauseFlags {
  DemoOptions cluster;
  std::vector<int> lengths = {256, 1024, 4096, 8000};
  int moves = 5;
  std::string text;
  bool check = false;
  bool json = false;
};

// A migration on a thread of its own, as the one who asks for it is not the client.
class BenchMove {
 public:
  BenchMove(const std::string& coordinator, v1::MigrateRequest request) : follower_(coordinator) {
    thread_ = std::thread([this, request = std::move(request)] {
      outcome_ = follower_.Migrate(request, [](const v1::MigrationEvent&) {});
    });
  }
  ~BenchMove() {
    follower_.Stop();
    if (thread_.joinable()) thread_.join();
  }
  absl::StatusOr<v1::Outcome> Await() {
    thread_.join();
    return outcome_;
  }

 private:
  client::MigrationFollower follower_;
  absl::StatusOr<v1::Outcome> outcome_ = absl::UnknownError("not started");
  std::thread thread_;
};

// One request of a length, moved to and fro in one mode.
class BenchRound {
 public:
  BenchRound(Cluster& cluster, const PauseFlags& flags, const ProfileChoice* lossy, const Clock& clock)
      : cluster_(cluster), flags_(flags), lossy_(lossy), clock_(clock) {}

  absl::StatusOr<std::vector<PauseSample>> Run(const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    request.mutable_sampling()->set_repeat_penalty(1.15f);
    request.mutable_stop()->set_max_tokens((flags_.moves + 1) * 4 * kCalm);
    request.mutable_stop()->set_ignore_eos(true);
    client::StreamOptions options;
    options.coordinator = cluster_.coordinator();
    stream_ = RequestStream::Generate(cluster_.worker(0), request, options, &clock_);
    absl::Cleanup cancel = [this] { stream_->CancelRequest().IgnoreError(); };
    std::vector<PauseSample> samples;
    for (int i = 0; i < flags_.moves && !ended_; ++i) {
      const int64_t calm_from = stream_->merger().next_index() + 2;  // the first steps after a move are not calm
      RETURN_IF_ERROR(ReadUpTo(calm_from + kCalm));
      if (ended_) break;
      BenchMove move(cluster_.coordinator(), Request(i));
      while (static_cast<int>(stream_->log().OwnerChanges().size()) <= i) {
        const int64_t next = stream_->merger().next_index();
        if (ended_ || next > calm_from + 3 * kCalm + kLongestPrecopy) break;  // it did not move: the outcome says why
        RETURN_IF_ERROR(ReadUpTo(next + 1));
      }
      ASSIGN_OR_RETURN(const v1::Outcome outcome, move.Await());
      if (ended_ && !samples.empty()) break;  // the model's context is full: the moves before count
      if (outcome.state() != v1::MIGRATION_STATE_SUCCEEDED || static_cast<int>(stream_->log().OwnerChanges().size()) <= i) {
        return absl::InternalError(fmt::format("move {} of {} tokens ended {}: {}", i, stream_->merger().next_index(),
                                               ShortName(outcome.state()), outcome.error().message()));
      }
      samples.push_back(Sample(outcome, calm_from));
    }
    return samples;
  }

 private:
  absl::Status ReadUpTo(int64_t index) {
    absl::Duration silent;
    while (stream_->merger().next_index() < index) {
      auto item = stream_->Next(kBenchPoll);
      if (Interrupted()) return absl::CancelledError("interrupted");
      if (item.ok()) {
        silent = absl::ZeroDuration();
        ended_ = std::holds_alternative<client::FinishedEvent>(*item);
        if (ended_) return absl::OkStatus();
        continue;
      }
      if (!absl::IsDeadlineExceeded(item.status())) return item.status();
      RETURN_IF_ERROR(cluster_.CheckAlive());
      silent += kBenchPoll;
      if (silent > kBenchSilence) return absl::DeadlineExceededError("the request was silent for too long");
    }
    return absl::OkStatus();
  }

  v1::MigrateRequest Request(int move) const {
    v1::MigrateRequest r;
    r.set_migration_id("bench-" + RandomHex(6));
    r.set_request_id(stream_->request_id());
    r.set_expected_epoch(stream_->merger().epoch());
    r.set_destination(move % 2 == 0 ? "b" : "a");
    r.set_mode(lossy_ != nullptr ? v1::MODE_RISK : v1::MODE_FULL);
    if (lossy_ != nullptr) {
      r.set_allow_lossy(true);
      r.set_predictor_set(lossy_->set.digest());
      r.set_profile(lossy_->profile.name());
      r.set_allow_ungated(!lossy_->profile.gated());
    }
    r.set_max_pause_ms(5000);  // the pause is what is measured: no budget may end the move
    r.set_deadline_ms(kBenchDeadlineMs);
    r.set_on_failure(v1::MigrateRequest::FAIL);
    r.set_reason("BENCH");
    return r;
  }

  PauseSample Sample(const v1::Outcome& outcome, int64_t calm_from) const {
    std::vector<double> gaps;
    const auto& all = stream_->log().deliveries();
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i].index <= calm_from || all[i].index >= calm_from + kCalm) continue;
      gaps.push_back(absl::ToDoubleMilliseconds(all[i].received - all[i - 1].received));
    }
    std::nth_element(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2), gaps.end());
    PauseSample s;
    s.tokens = outcome.stats().tokens_at_pause();
    s.pause = absl::ToDoubleMilliseconds(stream_->log().OwnerChanges().back().pause);
    s.step = gaps[gaps.size() / 2];
    s.final_copy = outcome.stats().final_ms();
    s.commit = outcome.commit_ms();
    return s;
  }

  Cluster& cluster_;
  const PauseFlags& flags_;
  const ProfileChoice* const lossy_;
  const Clock& clock_;
  std::unique_ptr<RequestStream> stream_;
  bool ended_ = false;
};

absl::StatusOr<std::string> PromptText(const PauseFlags& f) {
  if (f.text.empty()) return BuiltInText();
  std::ifstream in(f.text, std::ios::binary);
  if (!in) return absl::NotFoundError("cannot read " + f.text);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Repeated(const std::string& text, std::size_t chars) {
  std::string out;
  while (out.size() < chars) out += text.substr(0, chars - out.size());
  return out;
}

absl::StatusOr<double> CharsPerToken(const Cluster& cluster, const std::string& text, const Clock& clock) {
  v1::GenerateRequest request;
  request.set_prompt(Repeated(text, kSampleChars));
  request.mutable_stop()->set_max_tokens(1);
  auto stream = RequestStream::Generate(cluster.worker(0), request, {}, &clock);
  for (;;) {
    ASSIGN_OR_RETURN(const client::StreamItem item, stream->Next(kBenchSilence));
    const auto* started = std::get_if<client::StartedEvent>(&item);
    if (started != nullptr && started->prompt_tokens > 0) return static_cast<double>(kSampleChars) / static_cast<double>(started->prompt_tokens);
  }
}

absl::StatusOr<double> RttMs(const Cluster& cluster) {
  v1::MeasureLinkRequest request;
  request.set_address(cluster.worker(1));
  request.set_bytes(1 << 16);
  ASSIGN_OR_RETURN(const v1::MeasureLinkReply reply,
                   Peer<v1::Worker>("worker", cluster.worker(0)).Call(&v1::Worker::Stub::MeasureLink, request));
  return reply.rtt_seconds() * 1e3;
}

absl::StatusOr<bench::PauseReport> Measure(const PauseFlags& f, Cluster& cluster, Context& context) {
  bench::PauseReport report;
  ASSIGN_OR_RETURN(report.rtt, RttMs(cluster));
  std::optional<ProfileChoice> lossy;
  if (!f.cluster.predictors.empty()) {
    ASSIGN_OR_RETURN(const v1::WorkerInfo info,
                     Peer<v1::Worker>("worker", cluster.worker(0)).Call(&v1::Worker::Stub::Describe, v1::DescribeRequest()));
    ASSIGN_OR_RETURN(lossy, ChooseProfile(info.sets()));
  }
  ASSIGN_OR_RETURN(const std::string text, PromptText(f));
  ASSIGN_OR_RETURN(const double chars, CharsPerToken(cluster, text, context.clock));
  for (const bool risk : {false, true}) {
    if (risk && !lossy) continue;
    for (const int length : f.lengths) {
      // So that the first pause comes at about the length.
      const std::string prompt = Repeated(text, static_cast<std::size_t>(std::max(16.0, (length - 2 * kCalm) * chars)));
      ASSIGN_OR_RETURN(const auto samples, BenchRound(cluster, f, risk ? &*lossy : nullptr, context.clock).Run(prompt));
      report.rows.push_back(bench::Summarise(risk ? "RISK" : "FULL", samples));
      context.err << fmt::format("{} about {} tokens: {} moves, pause {:.1f} ms\n", report.rows.back().mode, length, samples.size(),
                                 report.rows.back().median.pause);
    }
  }
  return report;
}

absl::StatusOr<bench::PauseReport> RunCluster(PauseFlags f, Context& context) {
  std::string work = (std::filesystem::temp_directory_path() / "riskkv-bench-XXXXXX").string();
  if (mkdtemp(work.data()) == nullptr) return absl::InternalError("cannot create " + work);
  absl::Cleanup remove = [&work] {
    std::error_code ignored;
    std::filesystem::remove_all(work, ignored);
  };
  f.cluster.cells = *std::max_element(f.lengths.begin(), f.lengths.end()) * 5 / 4 + (f.moves + 1) * 4 * kCalm + kMargin;
  Cluster cluster(f.cluster, work, f.cluster.predictors.empty() ? work : f.cluster.predictors);
  RETURN_IF_ERROR(cluster.Start());
  RETURN_IF_ERROR(cluster.AwaitServing(absl::Seconds(120)));
  return Measure(f, cluster, context);
}

std::string PauseTable(const bench::PauseReport& report) {
  Table t({"mode", ">tokens", ">moves", ">pause", ">decode step", ">commit", ">final copy", ">rest", ">allowed", ">ratio"});
  for (const bench::PauseRow& r : report.rows) {
    t.Add({r.mode, std::to_string(r.median.tokens), std::to_string(r.moves), HumanMs(r.median.pause), HumanMs(r.median.step),
           HumanMs(r.median.commit), HumanMs(r.median.final_copy), HumanMs(r.rest()), HumanMs(r.allowed()), fmt::format("{:.2f}", r.ratio())});
  }
  std::string text = t.ToString() + fmt::format("round trip between the workers {}\n", HumanMs(report.rtt));
  for (const char* mode : {"FULL", "RISK"}) {
    text += fmt::format("{}: the pause grows by {} beyond 1.5 decode steps\n", mode, HumanMs(report.Growth(mode)));
  }
  return text;
}

int RunBenchPause(Context& context, const PauseFlags& f) {
  CatchInterrupts();
  const auto report = RunCluster(f, context);
  if (!report.ok()) return ReportFailure(context, report.status(), f.json);
  context.out << (f.json ? bench::ToJson(*report).dump(2) + "\n" : PauseTable(*report));
  return f.check && !report->Within() ? kExitBrokenPromise : kExitOk;
}

}  // namespace

void AddBenchPauseCommand(CLI::App& bench, Context& context) {
  auto f = std::make_shared<PauseFlags>();
  CLI::App* pause = AddCommand(bench, "pause", "A client's pause, by context length: two workers and a coordinator, as processes on this machine",
                               "riskkv bench pause --model smollm2.gguf --predictors sets/ --json", &f->json);
  pause->add_option("--model", f->cluster.model, "GGUF model")->check(CLI::ExistingFile);
  pause->add_option("--engine", f->cluster.engine, "llama, or fake (tests)")->check(CLI::IsMember({"llama", "fake"}))->capture_default_str();
  pause->add_option("--predictors", f->cluster.predictors, "Folder of predictor sets: RISK is measured too")->check(CLI::ExistingDirectory);
  pause->add_option("--lengths", f->lengths, "Prompt tokens, about; as far as the model's context goes")->delimiter(',')->capture_default_str();
  pause->add_option("--moves", f->moves, "Moves of each length in each mode; medians are shown")->check(CLI::Range(1, 100))->capture_default_str();
  pause->add_option("--text", f->text, "Text of the prompts (default: a passage of our own, repeated)");
  pause->add_option("--worker-binary", f->cluster.worker_binary, "Default: beside this program");
  pause->add_option("--coordinator-binary", f->cluster.coordinator_binary, "Default: beside this program");
  pause->add_flag("--check", f->check, "Exit code 7 when a pause is longer than 1.5 steps + 10 ms + commit + final copy, or grows with the context");
  pause->callback([f, &context] { context.run = [f, &context] { return RunBenchPause(context, *f); }; });
}

}  // namespace riskkv::cli
