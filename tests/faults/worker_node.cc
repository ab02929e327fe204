#include "tests/faults/worker_node.h"

#include <utility>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/selection_set.h"
#include "fmt/format.h"
#include "tests/faults/coordinator_node.h"
#include "tests/faults/tracing_engine.h"

namespace riskkv::faults {
namespace {

constexpr std::size_t kFrameBytes = 4096;

worker::DecisionInfo ToInfo(const coordinator::DecisionReply& r) {
  const bool decided = r.decision != Decision::kUnspecified && r.decision != Decision::kOpen;
  return {decided ? static_cast<worker::Decision>(r.decision) : worker::Decision::kOpen, r.epoch, r.start_index, r.owner.id, r.owner.address,
          r.reason};
}

// The coordinator as a worker reaches it.
class RemoteAuthority : public worker::DecisionAuthority {
 public:
  RemoteAuthority(World* world, ProcessPtr process) : world_(world), process_(std::move(process)) {}

  absl::StatusOr<worker::DecisionInfo> Prepared(const Fence& fence, int64_t start_index, const worker::PreparedStats&,
                                                worker::Cancellation* cancel) override {
    return Ask(Message::kPrepared, cancel, [=](CoordinatorNode& c) { return c.manager->Prepared(fence, start_index); });
  }
  absl::StatusOr<worker::DecisionInfo> Resumed(const Fence& fence, uint64_t new_epoch, worker::Cancellation* cancel) override {
    return Ask(Message::kResumed, cancel, [=](CoordinatorNode& c) { return c.manager->Resumed(fence, new_epoch); });
  }
  absl::StatusOr<worker::DecisionInfo> Resolve(const Fence& fence, bool give_up, bool destination, worker::Cancellation* cancel) override {
    return Ask(Message::kResolve, cancel,
               [=](CoordinatorNode& c) { return c.manager->Resolve(fence, give_up, destination ? "destination" : "source"); });
  }

 private:
  template <typename F>
  absl::StatusOr<worker::DecisionInfo> Ask(Message message, worker::Cancellation* cancel, F ask) {
    CoordinatorPtr c = world_->Coordinator();
    if (c == nullptr) return Network::Unreachable("no coordinator runs");
    auto reply = world_->network.Call(message, process_, c->process, {.cancel = cancel, .timeout = world_->times.call, .waits = true},
                                      [c, ask] { return ask(*c); });
    if (!reply.ok()) return reply.status();
    return ToInfo(*reply);
  }
  World* const world_;
  const ProcessPtr process_;
};

// A destination as a source reaches it.
class RemotePeer : public worker::DestinationPeer {
 public:
  RemotePeer(World* world, ProcessPtr process, std::string address)
      : world_(world), process_(std::move(process)), address_(std::move(address)) {}

  absl::StatusOr<worker::RoundReply> DeclareRound(const worker::RoundManifest& m, worker::Cancellation* cancel) override {
    return Ask(Message::kDeclare, {.cancel = cancel, .timeout = world_->times.call}, [m](WorkerNode& n) { return n.incoming->DeclareRound(m); });
  }
  absl::StatusOr<worker::PushReply> Push(const Fence& fence, std::span<const worker::SegmentPayload> segments,
                                         worker::Cancellation* cancel) override {
    auto owned = std::make_shared<std::vector<std::pair<uint32_t, std::string>>>();
    for (const worker::SegmentPayload& s : segments) owned->emplace_back(s.id, std::string(s.bytes));
    const bool flip = !owned->empty() && world_->network.flips > 0 && world_->network.flips.fetch_sub(1) > 0;
    return Ask(Message::kPush, {.cancel = cancel, .timeout = world_->times.call},
               [fence, owned, flip](WorkerNode& n) { return Serve(n, fence, *owned, flip); });
  }
  absl::StatusOr<worker::FinalReply> Final(const worker::FinalRequest& request, worker::Cancellation* cancel) override {
    world_->trace.FinalSent(request.fence);
    if (world_->network.finals_again > 0 && world_->network.finals_again.fetch_sub(1) > 0) {
      (void)Ask(Message::kFinal, {.cancel = cancel, .waits = true}, [request](WorkerNode& n) { return n.incoming->Final(request); });
      absl::SleepFor(absl::Milliseconds(40));
    }
    auto reply = Ask(Message::kFinal, {.cancel = cancel, .waits = true}, [request](WorkerNode& n) { return n.incoming->Final(request); });
    if (!reply.ok() && worker::IsDefiniteRefusal(reply.status())) world_->trace.FinalRefused(request.fence);
    return reply;
  }
  void Abort(const Fence& fence, const absl::Status& reason) override {
    (void)Ask(Message::kAbort, {.timeout = world_->times.call}, [fence, reason](WorkerNode& n) -> absl::Status {
      n.incoming->Abort(fence, reason);
      return absl::OkStatus();
    });
  }

 private:
  static absl::StatusOr<worker::PushReply> Serve(WorkerNode& node, const Fence& fence,
                                                 const std::vector<std::pair<uint32_t, std::string>>& segments, bool flip) {
    worker::IncomingMoves::Push push(node.incoming.get());
    if (segments.empty()) RETURN_IF_ERROR(push.Accept({fence.migration_id, fence.attempt, fence.epoch}));
    for (const auto& [id, bytes] : segments) {
      for (std::size_t at = 0; at < bytes.size(); at += kFrameBytes) {
        std::string payload = bytes.substr(at, kFrameBytes);
        const uint64_t xxh3 = Xxh3(payload.data(), payload.size());
        if (std::exchange(flip, false)) payload[payload.size() / 2] ^= 4;
        RETURN_IF_ERROR(push.Accept({fence.migration_id, fence.attempt, fence.epoch, id, static_cast<int64_t>(at),
                                     static_cast<int64_t>(payload.size()), xxh3, payload}));
      }
    }
    return push.Finish();
  }
  template <typename F>
  auto Ask(Message message, const CallTerms& terms, F serve) -> std::invoke_result_t<F, WorkerNode&> {
    WorkerPtr node = world_->Worker(address_);
    if (node == nullptr) return Network::Unreachable("connection refused");
    return world_->network.Call(message, process_, node->process, terms, [node, serve] { return serve(*node); });
  }
  World* const world_;
  const ProcessPtr process_;
  const std::string address_;
};

class RemoteCancelPeers : public worker::CancelPeers {
 public:
  RemoteCancelPeers(World* world, ProcessPtr process) : world_(world), process_(std::move(process)) {}

  absl::Status TellCoordinator(const std::string& request_id, worker::Cancellation* cancel) override {
    CoordinatorPtr c = world_->Coordinator();
    if (c == nullptr) return Network::Unreachable("no coordinator runs");
    return world_->network.Call(Message::kCancelRequest, process_, c->process, {.cancel = cancel, .timeout = world_->times.call},
                                [c, request_id] { return c->manager->CancelRequest(request_id).status(); });
  }
  absl::Status TellOwner(const std::string& address, const std::string& request_id, worker::Cancellation* cancel) override {
    WorkerPtr node = world_->Worker(address);
    if (node == nullptr) return Network::Unreachable("connection refused");
    return world_->network.Call(Message::kCancel, process_, node->process, {.cancel = cancel, .timeout = world_->times.call},
                                [node, request_id] { return node->cancels->Cancel(request_id).status(); });
  }

 private:
  World* const world_;
  const ProcessPtr process_;
};

coordinator::SetInfo SetOf(const worker::LoadedSet& loaded) {
  const PredictorSet& set = *loaded.set;
  coordinator::SetInfo info;
  info.digest = set.digest();
  info.fingerprint = set.fingerprint();
  info.file_bytes = set.file_bytes();
  info.groups.resize(set.groups().size());
  for (const auto& [name, p] : set.profiles()) {
    info.profiles.push_back({.name = p.name,
                             .groups = p.groups,
                             .omitted_layers = p.omitted_layers,
                             .gated = p.gated,
                             .first_exact = static_cast<int>(p.ends.first),
                             .last_exact = static_cast<int>(p.ends.last)});
  }
  return info;
}

}  // namespace

FakeOptions EngineOptions(absl::Duration step) {
  FakeOptions options;
  options.n_cells = 8192;
  options.n_sequences = 16;
  options.n_vocab = 4096;
  options.step_delay = step;
  return options;
}

const std::string& SetBytes() {
  static const std::string* const bytes =
      new std::string(SelectionSetBytes(FakeEngine::Create(EngineOptions(absl::ZeroDuration())).value()->facts()).value());
  return *bytes;
}

const std::string& SetDigest() {
  static const std::string* const digest = new std::string(Sha256Hex(SetBytes()));
  return *digest;
}

WorkerNode::WorkerNode(World* w, ProcessPtr p, kernels::Backend* backend) : world(w), process(std::move(p)) {
  world->trace.Started(process->number, process->boot);
  worker::ManagerOptions options;
  options.worker_id = process->id;
  options.boot_id = process->boot;
  options.max_ended = 32;
  auto engine = std::make_unique<TracingEngine>(FakeEngine::Create(EngineOptions(world->times.step)).value(), process, &world->trace);
  manager = worker::RequestManager::Create(options, std::move(engine), &world->clock).value();
  predictors = std::make_unique<worker::PredictorStore>("", manager->facts().fingerprint, backend, world->log);
  predictors->Add(SetDigest(), SetBytes()).value();
  authority = std::make_unique<RemoteAuthority>(world, process);
  cancel_peers = std::make_unique<RemoteCancelPeers>(world, process);
  cancels = std::make_unique<worker::CancelRelay>(worker::CancelRelayOptions{.first_retry = absl::Milliseconds(3), .last_retry = absl::Milliseconds(20)},
                                                  manager.get(), cancel_peers.get(), &world->clock, world->log);
  worker::IncomingOptions in;
  in.boot_id = process->boot;
  in.max_tombstones = 64;
  in.first_retry = absl::Milliseconds(3);
  in.last_retry = absl::Milliseconds(20);
  incoming = std::make_unique<worker::IncomingMoves>(in, manager.get(), predictors.get(), authority.get(), &world->clock, world->log);
  worker::OutgoingOptions out;
  out.boot_id = process->boot;
  out.max_ended = 64;
  out.resolve_every = absl::Milliseconds(10);
  out.resolve_last = absl::Milliseconds(30);
  out.no_progress = world->times.lease;
  outgoing = std::make_unique<worker::OutgoingMoves>(
      out, manager.get(), predictors.get(), authority.get(),
      [w = world, p = process](const std::string& address) -> absl::StatusOr<std::unique_ptr<worker::DestinationPeer>> {
        return std::make_unique<RemotePeer>(w, p, address);
      },
      &world->clock, world->log);
}

WorkerNode::~WorkerNode() {
  manager->Stop();
  cancels.reset();
  outgoing.reset();
  incoming.reset();
}

coordinator::WorkerInfo WorkerNode::Describe() const {
  coordinator::WorkerInfo info;
  info.name = {process->id, process->boot, process->id};
  info.model = "fake";
  info.fingerprint = manager->facts().fingerprint;
  info.costs = {.prefill_p1 = 0.001, .decode_s = 0.0005, .rebuild_s = 1e-6, .import_s = 1e-6, .export_s = 1e-6};
  for (const auto& set : predictors->List()) info.sets.push_back(SetOf(*set));
  info.load = Renewal().load;
  return info;
}

coordinator::LeaseRenewal WorkerNode::Renewal() const {
  const worker::ManagerLoad load = manager->Load();
  coordinator::LeaseRenewal r;
  r.worker_id = process->id;
  r.boot_id = process->boot;
  r.load.cells_total = load.cells_total;
  r.load.cells_used = load.cells_used;
  r.load.slots_total = load.slots_total;
  r.load.slots_used = load.slots_used;
  r.costs = {.prefill_p1 = 0.001, .decode_s = 0.0005, .rebuild_s = 1e-6, .import_s = 1e-6, .export_s = 1e-6};
  r.set_digests = {SetDigest()};
  return r;
}

bool WorkerNode::Idle() const {
  const worker::ManagerLoad load = manager->Load();
  return load.cells_used == 0 && load.slots_used == 0 && load.running == 0 && load.queued == 0 && incoming->active() == 0 &&
         outgoing->active() == 0 && incoming->staged_bytes() == 0;
}

std::string WorkerNode::Holdings() const {
  const worker::ManagerLoad load = manager->Load();
  std::string text = fmt::format("{} ({}): {} cells, {} slots, {} running, {} in, {} out, {} bytes staged", process->id, process->boot,
                                 load.cells_used, load.slots_used, load.running, incoming->active(), outgoing->active(),
                                 incoming->staged_bytes());
  for (const worker::RequestSnapshot& r : manager->List(true)) {
    text += fmt::format("; request {} epoch {} state {} tokens {}{}", r.id, r.epoch, static_cast<int>(r.state), r.output_tokens,
                        r.moving ? " moving" : "");
  }
  return text;
}

absl::Status WorkerNode::Adopt(worker::IncomingRequest request, uint64_t epoch, int64_t start_index) {
  std::vector<Token> history = request.prompt;
  for (const worker::LoggedToken& token : request.log) history.push_back(token.token);
  const int64_t cells = static_cast<int64_t>(history.size()) - 1;
  const std::string id = request.id;
  ASSIGN_OR_RETURN(const worker::ReservationId reservation,
                   manager->Reserve(cells + std::max<int64_t>(0, request.params.stop.max_tokens - start_index) + 1));
  absl::Status status = manager->Prefill(reservation, history, cells);
  if (status.ok()) status = manager->Install(reservation, std::move(request));
  if (!status.ok()) {
    manager->Release(reservation);
    return status;
  }
  RETURN_IF_ERROR(manager->Activate(id, epoch, start_index));
  return manager->AllowDelivery(id);
}

}  // namespace riskkv::faults
