#include "services/cli/demo/scenario.h"

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/ids.h"
#include "fmt/format.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/interrupt.h"
#include "services/cli/rpc.h"
#include "services/client/migration_follower.h"
#include "services/client/request_stream.h"

namespace riskkv::cli {
namespace {

using client::RequestStream;
using client::StreamItem;

constexpr absl::Duration kPoll = absl::Milliseconds(100);
constexpr absl::Duration kSilence = absl::Seconds(120);  // a stream this silent is not waited for
constexpr int kDeadlineMs = 60000;

v1::GenerateRequest Greedy(const std::string& prompt, int max_tokens) {
  v1::GenerateRequest request;
  request.set_prompt(prompt);
  // A small model goes round in circles without it; and it has to be the same on both workers.
  request.mutable_sampling()->set_repeat_penalty(1.15f);
  request.mutable_stop()->set_max_tokens(max_tokens);
  // The move needs something to move: the text does not end by itself.
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

// The move, on a thread of its own: the client below knows nothing of it but what its stream says.
class Mover {
 public:
  Mover(std::string coordinator, v1::MigrateRequest request)
      : coordinator_(std::move(coordinator)), request_(std::move(request)), follower_(coordinator_) {}
  ~Mover() { Stop(); }

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  bool started() const { return thread_.joinable(); }
  void Stop() {
    follower_.Stop();
    Join();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // After Join().
  absl::Status status;
  v1::Plan plan;
  v1::Outcome outcome;
  std::vector<v1::MigrationEvent> events;

 private:
  void Run() {
    v1::MigrateRequest ask = request_;
    ask.set_mode(v1::MODE_AUTO);
    ask.clear_predictor_set();  // and with whatever profile it would take
    ask.clear_profile();
    ask.set_must_move(true);  // between idle workers staying would always win, which tells nothing
    Peer<v1::Coordinator> coordinator("coordinator", coordinator_);
    absl::StatusOr<v1::Plan> planned = coordinator.Call(&v1::Coordinator::Stub::PlanMigration, ask);
    if (!planned.ok()) {
      status = planned.status();
      return;
    }
    plan = *planned;
    absl::StatusOr<v1::Outcome> result =
        follower_.Migrate(request_, [this](const v1::MigrationEvent& event) { events.push_back(event); });
    status = result.status();
    if (result.ok()) outcome = *result;
  }

  const std::string coordinator_;
  const v1::MigrateRequest request_;
  client::MigrationFollower follower_;
  std::thread thread_;
};

v1::MigrateRequest MoveRequest(const MoveSpec& spec, const RequestStream& stream) {
  v1::MigrateRequest r;
  r.set_migration_id("demo-" + RandomHex(6));
  r.set_request_id(stream.request_id());
  r.set_expected_epoch(stream.merger().epoch());
  r.set_source(Cluster::WorkerId(spec.from));
  r.set_destination("b");
  r.set_mode(spec.mode);
  r.set_allow_lossy(spec.mode == v1::MODE_RISK || spec.mode == v1::MODE_CODED);
  r.set_predictor_set(spec.predictor_set);
  r.set_profile(spec.profile);
  r.set_allow_ungated(spec.allow_ungated);
  r.set_max_pause_ms(spec.max_pause_ms);
  r.set_deadline_ms(kDeadlineMs);
  // What is shown is what was asked for, or an error.
  r.set_on_failure(v1::MigrateRequest::FAIL);
  r.set_reason("DEMO");
  return r;
}

// The next item; nothing when none came in a poll's time. Errors when interrupted or when a process died.
absl::StatusOr<std::optional<StreamItem>> Poll(RequestStream& stream, Cluster* cluster,
                                               absl::Duration& silent) {
  absl::StatusOr<StreamItem> item = stream.Next(kPoll);
  if (Interrupted()) return absl::CancelledError("interrupted");
  if (item.ok()) {
    silent = absl::ZeroDuration();
    return std::optional<StreamItem>(*std::move(item));
  }
  if (cluster != nullptr) RETURN_IF_ERROR(cluster->CheckAlive());
  if (item.status().code() != absl::StatusCode::kDeadlineExceeded) return item.status();
  silent += kPoll;
  if (silent < kSilence) return std::optional<StreamItem>();
  return absl::DeadlineExceededError(
      fmt::format("request {} was silent for {}", stream.request_id(), absl::FormatDuration(kSilence)));
}

void Show(const StreamItem& item, Narrator& narrator) {
  if (const auto* token = std::get_if<client::TokenEvent>(&item)) narrator.Text(token->text);
  if (const auto* end = std::get_if<client::FinishedEvent>(&item)) narrator.Text(end->tail_text);
}

// Every token of the request's log as its final owner keeps it.
absl::StatusOr<std::vector<int32_t>> ReadLog(const RequestStream& followed, const Clock& clock) {
  auto stream = RequestStream::Attach(followed.merger().owner().address, followed.request_id(), 0,
                                      followed.merger().epoch(), {}, &clock);
  absl::Duration silent;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<StreamItem> item, Poll(*stream, nullptr, silent));
    if (item && std::holds_alternative<client::FinishedEvent>(*item)) return stream->log().Tokens();
  }
}

void Account(const RequestStream& stream, MoveReport& report) {
  const client::DeliveryLog& log = stream.log();
  const int64_t output = stream.merger().end().output_tokens;
  report.tokens = log.Tokens();
  report.lost = log.Lost(output);
  report.duplicated = log.Duplicated();
  report.token_ms = absl::ToDoubleMilliseconds(log.MedianGap());
  report.tokens_before = static_cast<int64_t>(report.tokens.size());
  std::vector<client::OwnerChange> changes = log.OwnerChanges();
  if (changes.empty()) return;
  report.tokens_before = changes[0].index;
  report.tokens_after = static_cast<int64_t>(report.tokens.size()) - changes[0].index;
  for (const client::OwnerChange& c : changes)
    report.pause_ms = std::max(report.pause_ms, absl::ToDoubleMilliseconds(c.pause));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> RunUnmoved(const std::string& address, const std::string& prompt,
                                                int max_tokens, const Clock& clock) {
  auto stream = RequestStream::Generate(address, Greedy(prompt, max_tokens), {}, &clock);
  absl::Duration silent;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<StreamItem> item, Poll(*stream, nullptr, silent));
    if (item && std::holds_alternative<client::FinishedEvent>(*item)) return stream->log().Tokens();
  }
}

absl::StatusOr<MoveReport> RunMove(Cluster& cluster, const MoveSpec& spec, Narrator& narrator,
                                   const Clock& clock) {
  client::StreamOptions options;
  options.coordinator = cluster.coordinator();
  options.acknowledge = false;  // the owner's log is read once more at the end
  auto stream =
      RequestStream::Generate(cluster.worker(spec.from), Greedy(spec.prompt, spec.max_tokens), options, &clock);
  std::unique_ptr<Mover> mover;
  MoveReport report;
  absl::Duration silent;
  uint64_t shown_epoch = 0;
  for (bool finished = false; !finished;) {
    ASSIGN_OR_RETURN(std::optional<StreamItem> item, Poll(*stream, &cluster, silent));
    if (!item) continue;
    if (const auto* started = std::get_if<client::StartedEvent>(&*item)) {
      if (report.prompt_tokens == 0) report.prompt_tokens = started->prompt_tokens;
    }
    if (const auto* token = std::get_if<client::TokenEvent>(&*item)) {
      if (shown_epoch != 0 && token->epoch != shown_epoch) {
        narrator.Mark(fmt::format("from here on worker {} (epoch {}, output token {})",
                                  stream->merger().owner().worker_id, token->epoch, token->index));
      }
      shown_epoch = token->epoch;
    }
    Show(*item, narrator);
    if (mover == nullptr && stream->merger().next_index() >= spec.move_after) {
      mover = std::make_unique<Mover>(cluster.coordinator(), MoveRequest(spec, *stream));
      mover->Start();
    }
    finished = std::holds_alternative<client::FinishedEvent>(*item);
  }
  if (mover == nullptr) return absl::InternalError("the request ended before it was to move");
  mover->Join();
  RETURN_IF_ERROR(mover->status);
  report.outcome = mover->outcome;
  report.plan = mover->plan;
  report.events = mover->events;
  Account(*stream, report);
  ASSIGN_OR_RETURN(std::vector<int32_t> log, ReadLog(*stream, clock));
  report.log_matches = log == report.tokens;
  return report;
}

}  // namespace riskkv::cli
