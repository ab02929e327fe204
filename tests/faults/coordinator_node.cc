#include "tests/faults/coordinator_node.h"

#include <utility>

#include "common/base/status.h"
#include "tests/faults/worker_node.h"

namespace riskkv::faults {
namespace {

worker::ReserveParams ToParams(const coordinator::ReserveArgs& a) {
  worker::ReserveParams p;
  p.fence = a.fence;
  p.fingerprint = a.fingerprint;
  p.mode = static_cast<worker::MoveMode>(a.mode);
  p.predictor_set = a.predictor_set;
  p.profile = a.profile;
  p.n_kv = a.n_kv;
  p.growth = a.growth;
  p.headroom = a.headroom;
  p.lease = a.lease;
  return p;
}

worker::StartMoveParams ToParams(const coordinator::StartMoveArgs& a) {
  worker::StartMoveParams p;
  p.fence = a.fence;
  p.mode = static_cast<worker::MoveMode>(a.mode);
  p.predictor_set = a.predictor_set;
  p.profile = a.profile;
  p.destination_id = a.destination.id;
  p.destination_address = a.destination.address;
  p.max_pause = a.max_pause;
  p.deadline = a.deadline;
  return p;
}

coordinator::MoveEvent ToEvent(const worker::MoveEvent& e) {
  coordinator::MoveEvent out;
  out.state = static_cast<MigrationState>(e.state);
  if (auto* d = std::get_if<RoundDone>(&e.detail)) out.detail = *d;
  if (auto* d = std::get_if<PausedAt>(&e.detail)) out.detail = *d;
  if (auto* d = std::get_if<MoveStats>(&e.detail)) out.detail = *d;
  if (auto* d = std::get_if<absl::Status>(&e.detail)) out.detail = *d;
  if (auto* d = std::get_if<worker::RequestEnded>(&e.detail)) out.detail = coordinator::RequestEnded{d->output_tokens};
  return out;
}

coordinator::RequestInfo ToInfo(const worker::RequestSnapshot& s) {
  coordinator::RequestInfo info;
  info.request_id = s.id;
  info.epoch = s.epoch;
  info.start_index = s.start_index;
  info.finished = s.state == worker::RequestState::kFinished;
  info.moved = s.state == worker::RequestState::kMoved;
  info.prompt_tokens = s.prompt_tokens;
  info.output_tokens = s.output_tokens;
  info.n_kv = s.n_kv;
  info.max_tokens = s.params.stop.max_tokens;
  for (const worker::Provenance& p : s.provenance) info.provenance.push_back({p.range, p.predictor_set, p.profile});
  return info;
}

// The StartMove stream; everything of it happens on the thread that reads.
class RemoteStream : public coordinator::MoveStream {
 public:
  RemoteStream(World* world, ProcessPtr process, WorkerPtr node, worker::StartMoveParams params)
      : world_(world), process_(std::move(process)), node_(std::move(node)), params_(std::move(params)) {}

  std::unique_ptr<coordinator::MoveEvent> Next() override {
    if (node_ == nullptr) return End(Network::Unreachable("connection refused"));
    if (move_ == nullptr) {
      auto move = world_->network.Call(Message::kStartMove, process_, node_->process, {.cancel = &cancel_},
                                       [node = node_, params = params_] { return node->outgoing->Start(params); });
      if (!move.ok()) return End(move.status());
      move_ = *move;
    }
    for (;;) {
      if (absl::Status s = world_->network.Way(*process_, node_->process.get(), {.cancel = &cancel_}, absl::Now()); !s.ok()) return End(s);
      auto event = move_->Event(number_, absl::Milliseconds(2));
      if (absl::IsDeadlineExceeded(event.status())) continue;
      if (!event.ok()) return End(absl::OkStatus());
      ++number_;
      const auto rule = world_->network.Take(Message::kMoveEvents);
      if (rule && rule->trouble == Trouble::kDelay) absl::SleepFor(rule->by);
      // A stream loses nothing but its end: whatever else happens to an event breaks it.
      if (rule && rule->trouble != Trouble::kDelay && rule->trouble != Trouble::kDouble) return End(Network::Unreachable("the stream broke"));
      return std::make_unique<coordinator::MoveEvent>(ToEvent(*event));
    }
  }
  absl::Status Finish() override { return status_; }
  void Cancel() override { cancel_.Cancel(); }

 private:
  std::unique_ptr<coordinator::MoveEvent> End(absl::Status status) {
    status_ = std::move(status);
    return nullptr;
  }
  World* const world_;
  const ProcessPtr process_;
  const WorkerPtr node_;  // before the move, which is its
  const worker::StartMoveParams params_;
  worker::Cancellation cancel_;
  std::shared_ptr<worker::OutgoingMove> move_;
  std::size_t number_ = 0;
  absl::Status status_;
};

class RemoteWorkers : public coordinator::WorkerApi {
 public:
  RemoteWorkers(World* world, ProcessPtr process) : world_(world), process_(std::move(process)) {}

  absl::StatusOr<coordinator::RequestInfo> GetRequest(const WorkerName& worker, const std::string& id) override {
    return Ask(Message::kGetRequest, worker, world_->times.call, [id](WorkerNode& n) -> absl::StatusOr<coordinator::RequestInfo> {
      ASSIGN_OR_RETURN(const worker::RequestSnapshot s, n.manager->Get(id));
      return ToInfo(s);
    });
  }
  absl::Status Reserve(const WorkerName& destination, const coordinator::ReserveArgs& args, absl::Duration timeout) override {
    return Ask(Message::kReserve, destination, timeout, [p = ToParams(args)](WorkerNode& n) { return n.incoming->Reserve(p).status(); });
  }
  std::unique_ptr<coordinator::MoveStream> StartMove(const WorkerName& source, const coordinator::StartMoveArgs& args) override {
    return std::make_unique<RemoteStream>(world_, process_, world_->Worker(source.address), ToParams(args));
  }
  absl::StatusOr<bool> Decide(const WorkerName& worker, const coordinator::DecideArgs& args, absl::Duration timeout) override {
    const worker::DecisionInfo info{static_cast<worker::Decision>(args.decision), args.new_epoch, args.start_index, args.owner.id,
                                    args.owner.address, args.reason};
    return Ask(Message::kDecide, worker, timeout, [fence = args.fence, info](WorkerNode& n) -> absl::StatusOr<bool> {
      return n.outgoing->Decide(fence, info) || n.incoming->Decide(fence, info);
    });
  }
  absl::StatusOr<coordinator::AttemptInfo> QueryAttempt(const WorkerName& worker, const Fence& fence, absl::Duration timeout) override {
    return Ask(Message::kQueryAttempt, worker, timeout, [fence](WorkerNode& n) -> absl::StatusOr<coordinator::AttemptInfo> {
      worker::AttemptInfo info = n.outgoing->Query(fence);
      if (!info.known) info = n.incoming->Query(fence);
      return coordinator::AttemptInfo{info.known, static_cast<MigrationState>(info.state), n.process->boot, info.error};
    });
  }
  absl::Status FetchSet(const WorkerName&, const std::string&, const std::vector<std::string>&, absl::Duration) override {
    return absl::OkStatus();
  }
  absl::StatusOr<coordinator::LinkSample> MeasureLink(const WorkerName&, const std::string&, absl::Duration) override {
    return coordinator::LinkSample{.bytes_per_second = 1e9, .rtt_seconds = 1e-5};
  }
  absl::Status Adopt(const WorkerName& worker, const coordinator::AdoptArgs& args, absl::Duration timeout) override {
    return Ask(Message::kAdopt, worker, timeout, [request = world_->Handed(args.recover_request), args](WorkerNode& n) {
      return n.Adopt(request, args.epoch, args.start_index);
    });
  }
  absl::StatusOr<coordinator::WorkerInfo> Describe(const WorkerName& worker, absl::Duration timeout) override {
    return Ask(Message::kGetRequest, worker, timeout, [](WorkerNode& n) -> absl::StatusOr<coordinator::WorkerInfo> { return n.Describe(); });
  }

 private:
  template <typename F>
  auto Ask(Message message, const WorkerName& worker, absl::Duration timeout, F serve) -> std::invoke_result_t<F, WorkerNode&> {
    WorkerPtr node = world_->Worker(worker.address);
    if (node == nullptr) return Network::Unreachable("connection refused");
    return world_->network.Call(message, process_, node->process, {.timeout = timeout, .waits = true}, [node, serve] { return serve(*node); });
  }
  World* const world_;
  const ProcessPtr process_;
};

coordinator::ManagerOptions ShortOptions(const Times& times) {
  coordinator::ManagerOptions o;
  o.max_jobs = 2;
  o.default_deadline = times.deadline;
  o.tick = absl::Milliseconds(3);
  o.query_every = absl::Milliseconds(15);
  o.nudge_every = absl::Milliseconds(20);
  o.call_timeout = times.call;
  o.adopt_timeout = times.call;
  o.stats_wait = absl::Milliseconds(20);
  o.store_retry = absl::Milliseconds(5);
  o.retained = 64;
  o.retention = absl::Minutes(1);
  o.prune_every = absl::Milliseconds(500);
  o.notifier.threads = 2;
  o.notifier.call_timeout = times.call;
  o.notifier.retry = absl::Milliseconds(5);
  o.notifier.give_up = absl::Seconds(2);
  return o;
}

}  // namespace

CoordinatorNode::CoordinatorNode(World* w, Disk* disk, ProcessPtr p)
    : world(w),
      process(std::move(p)),
      store(disk, process, &w->trace),
      registry(&w->clock, w->times.lease),
      links(&w->clock),
      api(std::make_unique<RemoteWorkers>(w, process)) {}

absl::Status CoordinatorNode::Start() {
  ASSIGN_OR_RETURN(manager, coordinator::MigrationManager::Start(ShortOptions(world->times), {.store = &store,
                                                                                              .clock = &world->clock,
                                                                                              .registry = &registry,
                                                                                              .links = &links,
                                                                                              .corrections = &corrections,
                                                                                              .api = api.get(),
                                                                                              .log = world->log}));
  return absl::OkStatus();
}

}  // namespace riskkv::faults
