// What every cell does, whatever its fault.
#include <algorithm>

#include "common/base/failpoint.h"
#include "fmt/format.h"
#include "tests/faults/cell.h"

namespace riskkv::faults {
namespace {

std::vector<Token> RunAlone() {
  worker::ManagerOptions options;
  options.boot_id = "alone";
  static const RealClock* const clock = new RealClock();
  FakeOptions engine = EngineOptions(absl::ZeroDuration());
  auto manager = worker::RequestManager::Create(options, FakeEngine::Create(engine).value(), clock).value();
  worker::RequestParams params;
  params.stop.max_tokens = kMaxTokens;
  const std::string id = manager->Admit(params, ThePrompt()).value();
  Cluster::Eventually([&] { return manager->Get(id)->state == worker::RequestState::kFinished; }, absl::Minutes(2));
  std::vector<Token> out;
  for (const worker::LoggedToken& t : manager->Get(id)->log) out.push_back(t.token);
  return out;
}

}  // namespace

std::vector<Token> ThePrompt() {
  std::vector<Token> tokens;
  for (int i = 0; i < kPrompt; ++i) tokens.push_back(static_cast<Token>('a' + i * 7 % 26));
  return tokens;
}

const std::vector<Token>& Oracle() {
  static const std::vector<Token>* const tokens = new std::vector<Token>(RunAlone());
  return *tokens;
}

Scene::~Scene() {
  if (!migration_id.empty()) Failpoints::Get().Clear(migration_id);
  if (auto client = TheClient()) client->Stop();
}

void Scene::Begin() {
  Cluster::Eventually([&] { return cluster.Ready(); }, patience_);
  worker::RequestParams params;
  params.stop.max_tokens = kMaxTokens;
  request_id = cluster.Worker("a")->manager->Admit(params, ThePrompt()).value();
  auto client = std::make_shared<Client>(&cluster, cluster.NewProcess(kClientId), ClientTerms{request_id, "a", params, ThePrompt(), {}});
  {
    MutexLock lock(mu_);
    client_ = client;
  }
  Cluster::Eventually([&] { return client->received() >= 3; }, patience_);
}

std::shared_ptr<Client> Scene::TheClient() {
  MutexLock lock(mu_);
  return client_;
}

void Scene::ReplaceClient() {
  worker::RequestParams params;
  params.stop.max_tokens = kMaxTokens;
  std::shared_ptr<Client> old = TheClient();
  old->Stop();
  auto fresh = std::make_shared<Client>(&cluster, cluster.NewProcess(kClientId), ClientTerms{request_id, "", params, ThePrompt(), {}});
  MutexLock lock(mu_);
  client_ = fresh;
}

void Scene::CancelMigration() {
  CoordinatorPtr c = cluster.Coordinator();
  if (c == nullptr) return;
  const absl::Time now = absl::Now();
  if (c->manager->CancelJob(migration_id).ok()) job_cancelled_us = absl::ToUnixMicros(now);
}

void Scene::Order(std::function<void()> action) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  cluster.After(absl::ZeroDuration(), [action = std::move(action), done] {
    action();
    *done = true;
  });
  Cluster::Eventually([&] { return done->load(); }, absl::Milliseconds(100));
}

absl::Status Scene::StartJob(const std::string& id, Mode mode, uint64_t epoch, const std::string& destination, absl::Duration deadline) {
  JobSpec spec;
  spec.migration_id = id;
  spec.request_id = request_id;
  spec.expected_epoch = epoch;
  spec.destination = destination;
  spec.mode = mode;
  spec.allow_lossy = IsLossy(mode);
  if (IsLossy(mode)) {
    spec.predictor_set = SetDigest();
    spec.profile = "risk-0.005";
  }
  spec.max_pause_ms = 2000;
  spec.deadline_ms = absl::ToInt64Milliseconds(deadline);
  CoordinatorPtr c = cluster.Coordinator();
  if (c == nullptr) return Network::Unreachable("no coordinator runs");
  return c->manager->StartJob(spec).status();
}

void Scene::CheckClient(std::vector<std::string>& violations) {
  std::shared_ptr<Client> client = TheClient();
  const std::vector<Token> got = client->tokens();
  const std::vector<Token>& want = Oracle();
  if (absl::Status failure = client->failure(); !failure.ok()) violations.push_back("the client failed: " + failure.ToString());
  if (client->Lost() != 0 || client->Duplicated() != 0) {
    violations.push_back(fmt::format("{} tokens lost, {} doubled", client->Lost(), client->Duplicated()));
  }
  const auto differs = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  if (differs.first != got.end()) {
    violations.push_back(fmt::format("token {} differs from the unmoved run", differs.first - got.begin()));
  }
}

void Scene::CheckRecord(const std::string& id, std::vector<std::string>& violations) {
  auto job = Record(id);
  auto owner = cluster.disk.store.GetOwner(request_id);
  if (owner.ok() && (owner->open || !owner->resumed)) violations.push_back("the owner record is still undecided");
  if (!job.ok() || !owner.ok()) return;
  if (!IsTerminal(job->state)) return;
  const bool moved = owner->last_committed == id && owner->resumed && !owner->rolled_back;
  if (job->state == MigrationState::kSucceeded && !moved && !owner->last_committed.empty()) {
    violations.push_back("SUCCEEDED, but the owner record knows nothing of it");
  }
  if ((job->state == MigrationState::kAborted || job->state == MigrationState::kStayed) && moved) {
    violations.push_back(fmt::format("{}, but the owner record says that it moved", Name(job->state)));
  }
}

void Scene::CheckServes(const std::string& id, std::vector<std::string>& violations) {
  WorkerPtr node = cluster.Worker(id);
  worker::RequestParams params;
  params.stop.max_tokens = 4;
  auto next = node == nullptr ? absl::StatusOr<std::string>(absl::UnavailableError("not there")) : node->manager->Admit(params, {'a', 'b', 'c'});
  if (!next.ok()) {
    violations.push_back(fmt::format("{} does not take the next request: {}", id, next.status()));
    return;
  }
  const bool served = Cluster::Eventually(
      [&] {
        auto s = node->manager->Get(*next);
        return s.ok() && s->state == worker::RequestState::kFinished;
      },
      patience_);
  auto s = node->manager->Get(*next);
  if (!served || !s.ok() || s->finish != worker::FinishReason::kLength) violations.push_back(id + " does not serve the next request");
}

void Scene::CheckAfter(const std::string& id, std::vector<std::string>& violations) {
  if (!Cluster::Eventually([&] { return cluster.Ready(); }, patience_)) violations.push_back("the workers do not register again");
  std::shared_ptr<Client> client = TheClient();
  const int64_t before = client->received();
  auto over = [&] { return client->finished() || !client->failure().ok(); };
  if (!Cluster::Eventually([&] { return over() || client->received() >= before + 3; }, patience_)) {
    violations.push_back("the request does not go on: " + client->Text());
  }
  Cluster::Eventually(
      [&] {
        if (!over()) client->Cancel();
        absl::SleepFor(absl::Milliseconds(3));
        return over();
      },
      patience_);
  if (!over()) violations.push_back("the cancelled stream does not end: " + client->Text());
  CheckClient(violations);
  CheckRecord(id, violations);
  if (!Cluster::Eventually([&] { return cluster.Idle(); }, patience_)) violations.push_back("not everything was given back");
  for (const char* worker : {"a", "b"}) CheckServes(worker, violations);
  for (std::string& v : cluster.trace.Violations(request_id, kPrompt)) violations.push_back(std::move(v));
}

}  // namespace riskkv::faults
