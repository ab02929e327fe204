// Two workers over fake engines in one process, and moves between them.
#ifndef RISKKV_TESTS_UNIT_MOVE_MOVE_FIXTURE_H_
#define RISKKV_TESTS_UNIT_MOVE_MOVE_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/codec/selection_codec.h"
#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "services/worker/core/move_outgoing_table.h"
#include "services/worker/core/request_manager.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/move/fakes.h"

namespace riskkv::worker::testing {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::StatusIs;

inline constexpr absl::Duration kPatience = absl::Seconds(30);

inline FakeOptions FastEngine(int64_t step_us = 0) {
  FakeOptions options;
  options.n_cells = 16384;
  options.n_vocab = 4096;
  options.step_delay = absl::Microseconds(step_us);
  return options;
}

inline bool Eventually(const std::function<bool()>& holds, absl::Duration patience = kPatience) {
  const absl::Time end = absl::Now() + patience;
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

inline std::vector<Token> PromptOf(int n) {
  std::vector<Token> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<Token>('a' + i * 7 % 26));
  return tokens;
}

// One worker, both roles.
struct Node {
  Node(const std::string& name, const FakeOptions& engine_options, FakeAuthority* authority, int max_moves = 8) : id(name), boot("boot-" + name) {
    EXPECT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend).ok());
    ManagerOptions options;
    options.worker_id = id;
    options.boot_id = boot;
    manager = RequestManager::Create(options, FakeEngine::Create(engine_options).value(), &clock).value();
    predictors = std::make_unique<PredictorStore>("", manager->facts().fingerprint, backend.get(), NullLogger());
    IncomingOptions in;
    in.boot_id = boot;
    in.max_moves = max_moves;
    incoming = std::make_unique<IncomingMoves>(in, manager.get(), predictors.get(), authority, &clock, NullLogger());
  }
  // `to`: where its moves go, whatever the address.
  void ConnectTo(Node& to, FakeAuthority* authority) {
    OutgoingOptions out;
    out.boot_id = boot;
    out.resolve_every = absl::Milliseconds(20);
    outgoing = std::make_unique<OutgoingMoves>(
        out, manager.get(), predictors.get(), authority,
        [&to](const std::string&) -> absl::StatusOr<std::unique_ptr<DestinationPeer>> {
          return std::make_unique<LocalPeer>(to.incoming.get(), &to.wire);
        },
        &clock, NullLogger());
  }
  std::string AddSet(float scale = 1.0f) {
    auto bytes = SelectionSetBytes(manager->facts(), {}, kernels::WeightType::kF32, scale);
    EXPECT_OK(bytes);
    const std::string digest = Sha256Hex(*bytes);
    EXPECT_OK(predictors->Add(digest, *bytes));
    return digest;
  }
  std::string AddCodedSet() {
    auto set = MakeSelectionSet(manager->facts());
    EXPECT_OK(set);
    auto bytes = WithSelectionCodec(**set);
    EXPECT_OK(bytes);
    const std::string digest = Sha256Hex(*bytes);
    EXPECT_OK(predictors->Add(digest, *bytes));
    return digest;
  }
  bool Idle() {
    const ManagerLoad load = manager->Load();
    return load.cells_used == 0 && load.slots_used == 0 && incoming->active() == 0 && outgoing->active() == 0 &&
           incoming->staged_bytes() == 0;
  }

  const std::string id, boot;
  RealClock clock;
  Wire wire;  // the way to this node
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<RequestManager> manager;
  std::unique_ptr<PredictorStore> predictors;
  std::unique_ptr<IncomingMoves> incoming;
  std::unique_ptr<OutgoingMoves> outgoing;
};

// What became of a move, from the source's events.
struct Outcome {
  absl::Status reserve;
  absl::Status start;
  std::vector<MoveState> states;
  absl::Status failed;
  bool ended = false;
  MoveStats stats;
  MoveState last = MoveState::kUnspecified;
};

class MoveTest : public ::testing::Test {
 protected:
  // Slow enough that a request does not end while it moves, even on a busy machine.
  void SetUp() override { Build(FastEngine(1500), FastEngine(1500)); }
  void TearDown() override {
    if (b_ != nullptr) authority_.unreachable = false;
  }

  void Build(const FakeOptions& a, const FakeOptions& b, int max_moves = 8) {
    a_.reset();
    b_.reset();
    a_ = std::make_unique<Node>("a", a, &authority_, max_moves);
    b_ = std::make_unique<Node>("b", b, &authority_, max_moves);
    a_->ConnectTo(*b_, &authority_);
    b_->ConnectTo(*a_, &authority_);
    digest_ = a_->AddSet();
    b_->AddSet();
    coded_digest_ = a_->AddCodedSet();
    b_->AddCodedSet();
  }

  std::string Admit(int prompt, int max_tokens) {
    RequestParams params;
    params.stop.max_tokens = max_tokens;
    auto id = a_->manager->Admit(params, PromptOf(prompt));
    EXPECT_OK(id);
    return *id;
  }
  // Waits until the request has cells for `n` tokens.
  void AwaitTokens(Node& node, const std::string& request, int64_t n) {
    ASSERT_TRUE(Eventually([&] {
      auto s = node.manager->Get(request);
      return s.ok() && (s->n_tokens() >= n && s->output_tokens > 0);
    }));
  }
  // The output once it has ended on `node`.
  std::vector<Token> Output(Node& node, const std::string& request) {
    EXPECT_TRUE(Eventually([&] {
      auto s = node.manager->Get(request);
      return s.ok() && s->state == RequestState::kFinished;
    })) << "request does not end on " << node.id;
    std::vector<Token> out;
    auto snapshot = node.manager->Get(request);
    EXPECT_OK(snapshot);
    for (const LoggedToken& t : snapshot->log) out.push_back(t.token);
    return out;
  }
  std::vector<Token> Unmoved(int prompt, int max_tokens) {
    FakeAuthority nobody;
    Node alone("x", FastEngine(), &nobody);
    RequestParams params;
    params.stop.max_tokens = max_tokens;
    auto id = alone.manager->Admit(params, PromptOf(prompt));
    EXPECT_OK(id);
    return Output(alone, *id);
  }

  StartMoveParams Params(Node& from, Node& to, const std::string& request, MoveMode mode, const std::string& migration,
                         uint32_t attempt = 1) {
    StartMoveParams p;
    const auto snapshot = from.manager->Get(request);
    p.fence = {migration, attempt, snapshot.ok() ? snapshot->epoch : 1, request, from.boot, to.boot, 1};
    p.mode = mode;
    if (mode == MoveMode::kRisk) {
      p.predictor_set = digest_;
      p.profile = "risk-0.005";
    }
    if (mode == MoveMode::kCoded) {
      p.predictor_set = coded_digest_;
      p.profile = "coded-0.002";
    }
    p.destination_id = to.id;
    p.destination_address = to.id;
    p.max_pause = absl::Seconds(5);  // the machine that runs the tests may be slow
    return p;
  }
  absl::Status Reserve(Node& from, Node& to, const StartMoveParams& p, int64_t headroom = 512) {
    ReserveParams r;
    r.fence = p.fence;
    r.fingerprint = from.manager->facts().fingerprint;
    r.mode = p.mode;
    r.predictor_set = p.predictor_set;
    r.profile = p.profile;
    const auto snapshot = from.manager->Get(p.fence.request_id);
    r.n_kv = snapshot.ok() ? snapshot->n_kv : 0;
    r.growth = 512;
    r.headroom = headroom;
    if (snapshot.ok()) r.params = snapshot->params;
    return to.incoming->Reserve(r).status();
  }
  // Events until the attempt ends.
  Outcome Follow(OutgoingMove& move) {
    Outcome out;
    for (std::size_t i = 0;; ++i) {
      auto event = move.Event(i, kPatience);
      if (!event.ok()) {
        EXPECT_THAT(event, StatusIs(absl::StatusCode::kOutOfRange)) << "the attempt hangs in " << MoveStateName(out.last);
        return out;
      }
      out.last = event->state;
      out.states.push_back(event->state);
      if (auto* s = std::get_if<absl::Status>(&event->detail)) out.failed = *s;
      if (auto* s = std::get_if<MoveStats>(&event->detail)) out.stats = *s;
      if (std::holds_alternative<RequestEnded>(event->detail)) out.ended = true;
    }
  }
  Outcome Move(Node& from, Node& to, const StartMoveParams& p) {
    Outcome out;
    out.reserve = Reserve(from, to, p);
    if (!out.reserve.ok()) return out;
    auto move = from.outgoing->Start(p);
    out.start = move.status();
    return move.ok() ? Follow(**move) : out;
  }
  Outcome Move(Node& from, Node& to, const std::string& request, MoveMode mode, const std::string& migration) {
    return Move(from, to, Params(from, to, request, mode, migration));
  }
  void ExpectIdle() {
    EXPECT_TRUE(Eventually([&] { return a_->Idle() && b_->Idle(); }))
        << "a: " << a_->manager->Load().cells_used << " cells, " << a_->manager->Load().slots_used << " slots, " << a_->incoming->active()
        << " in, " << a_->outgoing->active() << " out; b: " << b_->manager->Load().cells_used << " cells, "
        << b_->manager->Load().slots_used << " slots, " << b_->incoming->active() << " in, " << b_->outgoing->active() << " out, "
        << b_->incoming->staged_bytes() << " staged";
  }

  FakeAuthority authority_;
  std::unique_ptr<Node> a_, b_;
  std::string digest_, coded_digest_;
};

}  // namespace riskkv::worker::testing

#endif  // RISKKV_TESTS_UNIT_MOVE_MOVE_FIXTURE_H_
