#include "tests/faults/client.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"
#include "tests/faults/coordinator_node.h"
#include "tests/faults/tracing_engine.h"
#include "tests/faults/worker_node.h"

namespace riskkv::faults {
namespace {

constexpr absl::Duration kIdle = absl::Microseconds(400);
constexpr absl::Duration kBackoff = absl::Milliseconds(4);
constexpr absl::Duration kSilence = absl::Milliseconds(60);
constexpr int kFailuresToRecover = 6;

// What a worker says, as GenerationService puts it on the wire.
struct OnWire {
  client::Event operator()(const worker::LoggedToken& t) const {
    client::TokenEvent out;
    out.index = t.index;
    out.token = t.token;
    out.logprob = t.logprob;
    out.epoch = t.epoch;
    return out;
  }
  client::Event operator()(const worker::MovingEvent& m) const {
    return client::MovingEvent{m.candidate.worker_id, m.candidate.address, m.candidate.migration_id};
  }
  client::Event operator()(const worker::MovedEvent& m) const {
    return client::MovedEvent{m.owner.worker_id, m.owner.address, m.owner.epoch, m.owner.next_index};
  }
  client::Event operator()(const worker::EndEvent& e) const {
    // A worker's going is not the request's end.
    if (ReasonOf(e.error) == "NOT_READY") return client::BrokenEvent{e.error};
    static constexpr client::FinishReason kReasons[] = {client::FinishReason::kUnspecified, client::FinishReason::kStop,
                                                        client::FinishReason::kLength, client::FinishReason::kCancelled,
                                                        client::FinishReason::kError};
    return client::FinishedEvent{kReasons[static_cast<int>(e.reason)], e.output_tokens, e.epoch, e.error, e.tail_text};
  }
  client::Event operator()(const worker::SupersededEvent&) const { return client::SupersededEvent{}; }
};

}  // namespace

Client::Client(World* world, ProcessPtr process, ClientTerms terms)
    : world_(world), process_(std::move(process)), terms_(std::move(terms)), merger_(0, 0), log_(0), last_news_(absl::Now()) {
  thread_ = std::thread([this] { Run(); });
}

void Client::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  std::thread canceller;
  {
    MutexLock lock(mu_);
    canceller = std::move(canceller_);
    sources_.clear();
  }
  if (canceller.joinable()) canceller.join();
}

void Client::Run() {
  {
    MutexLock lock(mu_);
    if (terms_.address.empty()) {
      failures_ = 1;
      attach_due_ = absl::Now();
    } else {
      Open({terms_.address, terms_.address});
    }
  }
  while (!stop_) {
    bool news = false;
    {
      MutexLock lock(mu_);
      if (cancel_at_ && !ended_ && absl::Now() - *cancel_at_ > kHangUp) EndCancelled(/*by_worker=*/false);
      if (ended_) return;
      if (absl::Now() >= away_until_) {
        RunDue();
        std::vector<client::SourceId> ids;
        for (const auto& [id, source] : sources_) ids.push_back(id);
        for (client::SourceId id : ids) {
          auto it = sources_.find(id);
          if (it != sources_.end()) news = Read(id, it->second) || news;
        }
      }
    }
    absl::SleepFor(news ? terms_.slow : kIdle);
  }
}

void Client::RunDue() {
  const absl::Time now = absl::Now();
  if (attach_due_ && now >= *attach_due_) {
    attach_due_.reset();
    AttachOwner();
  }
  if (candidate_due_ && now >= *candidate_due_) {
    candidate_due_.reset();
    if (candidate_) candidate_source_ = Open(*candidate_);
  }
  if (!attach_due_ && now - last_news_ > kSilence) {
    last_news_ = now;
    Locate();
    if (!AttachedToOwner()) AttachOwner();
  }
}

// One event at a time, so that what is closed meanwhile is not read on.
bool Client::Read(client::SourceId id, Source& source) {
  if (source.process->dead) {
    Handle(id, client::BrokenEvent{Network::Unreachable("connection reset")});
    return true;
  }
  if (source.process->paused || world_->network.IsCut(process_->id, source.process->id)) return false;
  const std::shared_ptr<worker::Subscription> stream = source.stream;
  const ProcessPtr process = source.process;
  for (int i = 0; i < (terms_.slow > absl::ZeroDuration() ? 1 : 64); ++i) {
    auto event = stream->Next(absl::ZeroDuration());
    if (process->dead) return true;  // it came too late
    if (absl::IsDeadlineExceeded(event.status())) return i > 0;
    if (!event.ok()) {
      Handle(id, client::BrokenEvent{absl::IsOutOfRange(event.status()) ? absl::OkStatus() : event.status()});
      return true;
    }
    if (const auto* t = std::get_if<worker::LoggedToken>(&*event)) {
      world_->trace.Delivered(t->index, ProducerOf(t->logprob), t->epoch);
    }
    Handle(id, std::visit(OnWire(), *event));
    if (ended_ || sources_.count(id) == 0) return true;
  }
  return true;
}

void Client::Handle(client::SourceId id, const client::Event& event) {
  if (!std::holds_alternative<client::BrokenEvent>(event)) last_news_ = absl::Now();
  Act(id, event, merger_.OnEvent(id, event));
}

void Client::Act(client::SourceId id, const client::Event& event, const client::Verdict& verdict) {
  switch (verdict.action) {
    case client::Action::kDeliver:
      Deliver(std::get<client::TokenEvent>(event));
      if (candidate_) {
        if (candidate_source_ != 0 && id != candidate_source_) sources_.erase(candidate_source_);
        candidate_.reset();
        candidate_due_.reset();
        candidate_source_ = 0;
      }
      return;
    case client::Action::kNone: return;
    case client::Action::kDrop:
      if (std::holds_alternative<client::BrokenEvent>(event)) sources_.erase(id);
      return;
    case client::Action::kPreAttach:
      candidate_ = verdict.target;
      candidate_due_ = absl::Now();
      return;
    case client::Action::kFollow:
      if (candidate_source_ != 0 && !merger_.IsOwner(candidate_source_)) sources_.erase(candidate_source_);
      candidate_.reset();
      candidate_due_.reset();
      candidate_source_ = 0;
      AttachOwner();
      return;
    case client::Action::kReattach:
      sources_.erase(id);
      ++failures_;
      last_trouble_ = verdict.error;
      attach_due_ = absl::Now() + kBackoff;
      return;
    case client::Action::kCloseSource:
      sources_.erase(id);
      if (id == candidate_source_ && candidate_) {
        candidate_source_ = 0;
        candidate_due_ = absl::Now() + kBackoff;
      }
      return;
    case client::Action::kFinished:
      if (cancel_at_) return EndCancelled(/*by_worker=*/true);
      ended_ = true;
      Acknowledge();
      return;
    case client::Action::kFail:
      if (ReasonOf(verdict.error) != "SUPERSEDED") return Fail(verdict.error);
      // By an attach of its own that arrived late: there is no other client here. The stream is taken up again.
      sources_.erase(id);
      ++failures_;
      attach_due_ = absl::Now() + kBackoff;
      return;
  }
}

void Client::Deliver(const client::TokenEvent& token) {
  failures_ = 0;
  log_.Add(token, world_->clock.Monotonic());
  worker::LoggedToken held;
  held.index = token.index;
  held.token = token.token;
  held.logprob = token.logprob;
  held.epoch = token.epoch;
  held_.push_back(held);
  world_->trace.Accepted(token.index, token.token, ProducerOf(token.logprob), token.epoch);
}

// As the client library does, so that the worker need not keep the log any longer.
void Client::Acknowledge() {
  if (WorkerPtr node = world_->Worker(merger_.owner().address)) node->manager->Acknowledge(terms_.request_id).IgnoreError();
}

void Client::Fail(const absl::Status& why) {
  failure_ = why;
  ended_ = true;
}

void Client::Locate() {
  CoordinatorPtr c = world_->Coordinator();
  if (c == nullptr) return;
  auto location = world_->network.Call(Message::kLocate, process_, c->process, {.timeout = world_->times.call},
                                       [c, id = terms_.request_id] { return c->manager->Locate(id); });
  if (!location.ok()) {
    last_trouble_ = location.status();
    return;
  }
  recover_asked_ = false;
  const client::Verdict v = merger_.OnLocated({location->owner.id, location->owner.address, location->epoch, location->start_index});
  if (v.action == client::Action::kFail) Fail(v.error);
}

// The last resort, for whoever holds the tokens; the coordinator refuses it while the owner is there.
void Client::Recover() {
  CoordinatorPtr c = world_->Coordinator();
  if (c == nullptr) return;
  coordinator::RecoverArgs args;
  args.request_id = terms_.request_id;
  args.epoch = std::max<uint64_t>(1, merger_.epoch());
  args.received = merger_.next_index();
  args.recover_request = world_->Hand({terms_.request_id, terms_.params, terms_.prompt, held_, {}});
  world_->trace.RecoverAsked();
  // From here on nothing of this epoch is taken any more: the answer may be lost, and the new one begin at the index that was named.
  recover_asked_ = true;
  sources_.clear();
  auto found = c->manager->Recover(args);
  if (!found.ok()) {
    last_trouble_ = found.status();
    return;
  }
  recover_asked_ = false;
  const client::Verdict v = merger_.OnLocated({found->owner.id, found->owner.address, found->epoch, found->start_index});
  if (v.action == client::Action::kFail) Fail(v.error);
}

void Client::AttachOwner() {
  if (failures_ > 0) Locate();
  if (ended_ || AttachedToOwner()) return;
  if (failures_ >= kFailuresToRecover && failures_ % kFailuresToRecover == 0) Recover();
  if (ended_) return;
  if (!recover_asked_) {
    Open(merger_.owner());
    return;
  }
  ++failures_;
  attach_due_ = absl::Now() + kBackoff;
}

client::SourceId Client::Open(const client::Target& target) {
  const client::SourceId id = ++last_source_;
  merger_.OnSourceOpened(id, target);
  WorkerPtr node = world_->Worker(target.address);
  absl::StatusOr<std::shared_ptr<worker::Subscription>> stream = Network::Unreachable("connection refused");
  if (node != nullptr) {
    stream = world_->network.Call(
        Message::kAttach, process_, node->process, {.timeout = world_->times.call},
        [node, request = terms_.request_id, next = merger_.next_index(),
         epoch = merger_.epoch()]() -> absl::StatusOr<std::shared_ptr<worker::Subscription>> {
          ASSIGN_OR_RETURN(std::shared_ptr<worker::Subscription> s, node->manager->Attach(request, next, epoch));
          return s;
        });
  }
  if (stream.ok()) {
    sources_[id] = {node->process, *std::move(stream)};
  } else {
    Handle(id, client::BrokenEvent{stream.status()});
  }
  return id;
}

bool Client::AttachedToOwner() const {
  return std::any_of(sources_.begin(), sources_.end(), [this](const auto& s) { return merger_.IsOwner(s.first); });
}

void Client::Disconnect(absl::Duration away) {
  MutexLock lock(mu_);
  sources_.clear();
  candidate_.reset();
  candidate_due_.reset();
  candidate_source_ = 0;
  away_until_ = absl::Now() + away;
  failures_ = 1;
  attach_due_ = away_until_;
}

void Client::AttachTwice() {
  MutexLock lock(mu_);
  if (!ended_) Open(merger_.owner());
}

void Client::Cancel() {
  MutexLock lock(mu_);
  if (cancel_at_ || ended_ || stop_) return;
  cancel_at_ = absl::Now();
  canceller_ = std::thread([this] { TellCancel(); });
}

void Client::EndCancelled(bool by_worker) {
  cancelled_ = Cancelled{absl::ToDoubleMilliseconds(absl::Now() - *cancel_at_), by_worker};
  ended_ = true;
  sources_.clear();
}

// On a thread of its own: whoever cannot be reached holds up nothing.
void Client::TellCancel() {
  for (; !stop_; absl::SleepFor(kBackoff)) {
    std::string address;
    {
      MutexLock lock(mu_);
      address = merger_.owner().address;
    }
    if (WorkerPtr node = world_->Worker(address)) {
      const absl::Status told =
          world_->network.Call(Message::kCancel, process_, node->process, {.timeout = world_->times.call},
                               [node, id = terms_.request_id] { return node->cancels->Cancel(id).status(); });
      if (told.ok()) {
        node->manager->Acknowledge(terms_.request_id).IgnoreError();
        return;
      }
    }
    // It may have moved, or its owner may be lost: then whoever owns it by the record.
    MutexLock lock(mu_);
    Locate();
  }
}

std::optional<Client::Cancelled> Client::cancelled() {
  MutexLock lock(mu_);
  return cancelled_;
}

int64_t Client::received() {
  MutexLock lock(mu_);
  return merger_.next_index();
}
bool Client::finished() {
  MutexLock lock(mu_);
  return ended_ && failure_.ok();
}
absl::Status Client::failure() {
  MutexLock lock(mu_);
  return failure_;
}
std::vector<Token> Client::tokens() {
  MutexLock lock(mu_);
  return log_.Tokens();
}
client::FinishReason Client::end() {
  MutexLock lock(mu_);
  return merger_.end().reason;
}
int64_t Client::Lost() {
  MutexLock lock(mu_);
  return log_.Lost(merger_.next_index());
}
int64_t Client::Duplicated() {
  MutexLock lock(mu_);
  return log_.Duplicated();
}
std::string Client::Text() {
  MutexLock lock(mu_);
  return fmt::format("client at index {} epoch {}, {} streams, owner {}, {} failures, last trouble: {}, failure: {}", merger_.next_index(),
                     merger_.epoch(), sources_.size(), merger_.owner().address, failures_, last_trouble_, failure_);
}

}  // namespace riskkv::faults
