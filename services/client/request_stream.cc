#include "services/client/request_stream.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "services/client/convert.h"

namespace riskkv::client {
namespace {

constexpr absl::Duration kLookForAnswer = absl::Milliseconds(20);

absl::Status Cancelled() {
  return WithContext(
      MakeError(absl::StatusCode::kCancelled, "CANCELLED_BY_CALLER", "the client stopped reading"), "client",
      "");
}

// Errors that another attempt cannot cure. An unknown request may be known elsewhere: with a coordinator that
// is asked.
bool IsFinal(const absl::Status& why, bool has_coordinator) {
  switch (why.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return true;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return !has_coordinator;
    default:
      return false;
  }
}

}  // namespace

RequestStream::RequestStream(StreamOptions options, int64_t next_index, uint64_t min_epoch,
                             const Clock* clock)
    : options_(std::move(options)),
      clock_(clock),
      merger_(next_index, min_epoch),
      log_(next_index),
      last_news_(clock->Monotonic()) {
  if (options_.coordinator.empty()) return;
  locator_.emplace(options_.coordinator);
  if (options_.recover) recoverer_.emplace(options_.coordinator);
}

std::unique_ptr<RequestStream> RequestStream::Generate(const std::string& address,
                                                       const v1::GenerateRequest& request,
                                                       StreamOptions options, const Clock* clock) {
  std::unique_ptr<RequestStream> stream(new RequestStream(std::move(options), 0, 0, clock));
  if (stream->recoverer_ && request.has_tokens()) {
    const auto& ids = request.tokens().ids();
    stream->holding_ = Holding{.prompt = {ids.begin(), ids.end()}, .sampling = request.sampling(), .stop = request.stop()};
  }
  stream->Open(Target{"", address}, [request](v1::Generation::Stub& stub, grpc::ClientContext* context) {
    return stub.Generate(context, request);
  });
  return stream;
}

std::unique_ptr<RequestStream> RequestStream::Attach(const std::string& address,
                                                     const std::string& request_id, int64_t next_index,
                                                     uint64_t min_epoch, StreamOptions options,
                                                     const Clock* clock) {
  std::unique_ptr<RequestStream> stream(new RequestStream(std::move(options), next_index, min_epoch, clock));
  stream->request_id_ = request_id;
  stream->OpenAttach(Target{"", address});
  return stream;
}

RequestStream::~RequestStream() {
  queue_.Close();
  for (auto& [id, source] : sources_) source->Cancel();
}

absl::StatusOr<StreamItem> RequestStream::Next(absl::Duration timeout) {
  if (ended_) return absl::OutOfRangeError("the request's stream has ended");
  const absl::Duration deadline = clock_->Monotonic() + timeout;
  while (true) {
    if (queue_.closed()) return Fail(Cancelled());
    if (auto result = RunDue()) return *result;
    std::optional<QueuedEvent> queued = queue_.Pop(NextDue(deadline) - clock_->Monotonic());
    if (queued) {
      if (auto result = Handle(*queued)) return *result;
    } else if (clock_->Monotonic() >= deadline) {
      return absl::DeadlineExceededError("no event yet");
    }
  }
}

absl::Duration RequestStream::NextDue(absl::Duration deadline) const {
  absl::Duration due = std::min(deadline, clock_->Monotonic() + absl::Seconds(1));
  if (attach_due_) due = std::min(due, *attach_due_);
  if (candidate_due_) due = std::min(due, *candidate_due_);
  if (recoverer_ && recoverer_->running()) due = std::min(due, clock_->Monotonic() + kLookForAnswer);
  return due;
}

std::optional<absl::StatusOr<StreamItem>> RequestStream::RunDue() {
  if (recoverer_ && recoverer_->running()) return EndRecover();
  absl::Duration now = clock_->Monotonic();
  if (attach_due_ && now >= *attach_due_) {
    attach_due_.reset();
    AttachOwner();
  }
  if (candidate_due_ && now >= *candidate_due_) {
    candidate_due_.reset();
    PreAttach();
  }
  if (locator_ && !request_id_.empty() && !attach_due_ && now - last_news_ > options_.stall) {
    last_news_ = now;
    // Silence may be a long queue; only another owner is a reason to go elsewhere.
    if (AskCoordinator().ok() && !AttachedToOwner()) AttachOwner();
  }
  return std::nullopt;
}

std::optional<absl::StatusOr<StreamItem>> RequestStream::Handle(const QueuedEvent& queued) {
  if (!std::holds_alternative<BrokenEvent>(queued.event)) last_news_ = queued.received;
  // A request that was never admitted cannot be attached to.
  if (request_id_.empty()) {
    if (const auto* broken = std::get_if<BrokenEvent>(&queued.event)) {
      absl::Status why = broken->status;
      if (why.ok())
        why = MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the worker ended the stream unasked");
      return Fail(Annotate(why, sources_.empty() ? "Generate" : sources_.begin()->second->address()));
    }
    if (const auto* started = std::get_if<StartedEvent>(&queued.event)) request_id_ = started->request_id;
  }
  return Act(queued, merger_.OnEvent(queued.source, queued.event));
}

std::optional<absl::StatusOr<StreamItem>> RequestStream::Act(const QueuedEvent& queued, Verdict verdict) {
  switch (verdict.action) {
    case Action::kDeliver:
      return Deliver(queued);
    case Action::kNone:
      if (const auto* started = std::get_if<StartedEvent>(&queued.event)) return StreamItem(*started);
      return std::nullopt;
    case Action::kDrop:
      // The late end of a stream that was already given up.
      if (std::holds_alternative<BrokenEvent>(queued.event)) Close(queued.source);
      return std::nullopt;
    case Action::kPreAttach:
      candidate_ = verdict.target;
      if (options_.pre_attach) candidate_due_ = queued.received;
      return StreamItem(std::get<MovingEvent>(queued.event));
    case Action::kFollow:
      if (candidate_source_ != 0 && !merger_.IsOwner(candidate_source_)) Close(candidate_source_);
      ForgetCandidate();
      AttachOwner();
      return StreamItem(std::get<MovedEvent>(queued.event));
    case Action::kReattach:
      Close(queued.source);
      return PlanReattach(verdict.error);
    case Action::kCloseSource:
      Close(queued.source);
      if (queued.source == candidate_source_ && candidate_) {
        // Not prepared yet, most likely: it is asked again until the decision.
        candidate_source_ = 0;
        candidate_due_ = clock_->Monotonic() + options_.backoff;
      }
      return std::nullopt;
    case Action::kFinished:
      return Finish(std::get<FinishedEvent>(queued.event));
    case Action::kFail:
      return Fail(verdict.error);
  }
  return std::nullopt;
}

absl::StatusOr<StreamItem> RequestStream::Deliver(const QueuedEvent& queued) {
  failures_ = 0;
  log_.Add(std::get<TokenEvent>(queued.event), queued.received);
  if (holding_) holding_->log.push_back(ToProto(std::get<TokenEvent>(queued.event)));
  // A token of the owner that was to move: it stays. A token of the candidate: it is the owner now.
  if (candidate_) {
    if (candidate_source_ != 0 && queued.source != candidate_source_) Close(candidate_source_);
    ForgetCandidate();
  }
  return StreamItem(std::get<TokenEvent>(queued.event));
}

absl::StatusOr<StreamItem> RequestStream::Finish(const FinishedEvent& end) {
  ended_ = true;
  if (options_.acknowledge) {
    auto stub = v1::Generation::NewStub(CreateChannel(merger_.owner().address, ChannelKind::kControl));
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(1));
    v1::AcknowledgeRequest request;
    request.set_request_id(request_id_);
    v1::AcknowledgeReply reply;
    // Only spares the owner its log's retention: a failure costs nothing.
    (void)stub->Acknowledge(&context, request, &reply);
  }
  return StreamItem(end);
}

absl::StatusOr<StreamItem> RequestStream::Fail(absl::Status error) {
  ended_ = true;
  return error;
}

std::optional<absl::StatusOr<StreamItem>> RequestStream::PlanReattach(absl::Status why) {
  ++failures_;
  if (IsFinal(why, locator_.has_value())) return Fail(std::move(why));
  if (MayRecover() && failures_ >= options_.recover_after && Patient()) {
    StartRecover();
    return std::nullopt;
  }
  if (failures_ > options_.max_attempts && !Patient()) {
    return Fail(Annotate(why, fmt::format("request {} from index {}: given up after {} attempts", request_id_,
                                          merger_.next_index(), failures_)));
  }
  ScheduleAttach();
  return std::nullopt;
}

void RequestStream::ScheduleAttach() {
  absl::Duration wait = options_.backoff * (1LL << std::min(std::max(failures_ - 1, 0), 10));
  attach_due_ =
      clock_->Monotonic() + (failures_ <= 1 ? absl::ZeroDuration() : std::min(wait, options_.max_backoff));
}

bool RequestStream::MayRecover() const {
  return holding_ && static_cast<int64_t>(holding_->log.size()) == merger_.next_index();
}

bool RequestStream::Patient() const {
  return MayRecover() && clock_->Monotonic() - last_news_ < options_.recover_patience;
}

// From here on nothing of the epochs so far is taken: the new owner begins where this client stands now.
void RequestStream::StartRecover() {
  while (!sources_.empty()) Close(sources_.begin()->first);
  ForgetCandidate();
  attach_due_.reset();
  v1::RecoverRequest request;
  request.set_request_id(request_id_);
  request.set_epoch(merger_.epoch());
  request.mutable_prompt()->Add(holding_->prompt.begin(), holding_->prompt.end());
  for (const v1::TokenRecord& token : holding_->log) *request.add_log() = token;
  *request.mutable_sampling() = holding_->sampling;
  *request.mutable_stop() = holding_->stop;
  recoverer_->Start(std::move(request), options_.recover_timeout);
}

// NOT_OWNER: the owner is there, and is attached to again. Anything else may have been carried out all the same, so nothing of this epoch
// is taken before the owner record shows a later one, or refuses.
std::optional<absl::StatusOr<StreamItem>> RequestStream::EndRecover() {
  std::optional<absl::StatusOr<Target>> owner = recoverer_->Take();
  if (!owner) return std::nullopt;
  recovering_ = !owner->ok() && ReasonOf(owner->status()) != "NOT_OWNER";
  if (!owner->ok()) {
    ++failures_;
    if (recovering_ && !Patient()) return Fail(owner->status());
    ScheduleAttach();
    return std::nullopt;
  }
  ++recoveries_;
  failures_ = 0;
  last_news_ = clock_->Monotonic();
  Verdict verdict = merger_.OnLocated(**owner);
  if (verdict.action == Action::kFail) return Fail(verdict.error);
  ScheduleAttach();
  const Target& to = merger_.owner();
  return StreamItem(MovedEvent{to.worker_id, to.address, to.epoch, to.start_index});
}

absl::Status RequestStream::AskCoordinator() {
  absl::StatusOr<Target> owner = locator_->Locate(request_id_, options_.locate_timeout);
  RETURN_IF_ERROR(owner.status());
  if (owner->address.empty()) return absl::NotFoundError("no address");
  merger_.OnLocated(*owner);
  return absl::OkStatus();
}

void RequestStream::AttachOwner() {
  // After a failure nobody's word is fresher than the owner record's; without an answer the last known owner
  // is tried.
  const uint64_t epoch = merger_.epoch();
  if (failures_ > 0 && locator_) AskCoordinator().IgnoreError();
  if (recovering_ && merger_.epoch() == epoch) return StartRecover();
  recovering_ = false;
  if (AttachedToOwner()) return;
  OpenAttach(merger_.owner());
}

void RequestStream::PreAttach() {
  if (candidate_) candidate_source_ = OpenAttach(*candidate_);
}

void RequestStream::ForgetCandidate() {
  candidate_.reset();
  candidate_due_.reset();
  candidate_source_ = 0;
}

SourceId RequestStream::OpenAttach(const Target& target) {
  v1::AttachRequest request;
  request.set_request_id(request_id_);
  request.set_next_index(merger_.next_index());
  request.set_min_epoch(merger_.epoch());
  ++attaches_;
  return Open(target, [request](v1::Generation::Stub& stub, grpc::ClientContext* context) {
    return stub.Attach(context, request);
  });
}

SourceId RequestStream::Open(const Target& target, StreamSource::Starter starter) {
  SourceId id = next_source_++;
  merger_.OnSourceOpened(id, target);
  sources_[id] = std::make_unique<StreamSource>(id, target.address, std::move(starter), &queue_, clock_);
  return id;
}

void RequestStream::Close(SourceId source) {
  queue_.Mute(source);
  sources_.erase(source);
}

bool RequestStream::AttachedToOwner() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [this](const auto& s) { return merger_.IsOwner(s.first); });
}

absl::StatusOr<bool> RequestStream::CancelRequest() {
  auto stub = v1::Generation::NewStub(CreateChannel(merger_.owner().address, ChannelKind::kControl));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(5));
  v1::CancelRequest request;
  request.set_request_id(request_id_);
  v1::CancelReply reply;
  RETURN_IF_ERROR(FromGrpc(stub->Cancel(&context, request, &reply), merger_.owner().address));
  return reply.was_running();
}

}  // namespace riskkv::client
