// Real gRPC servers whose answers are written down call by call, for tests of clients.
#ifndef RISKKV_TESTS_INTEGRATION_CLIENT_SCRIPTED_WORKER_H_
#define RISKKV_TESTS_INTEGRATION_CLIENT_SCRIPTED_WORKER_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/server.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "riskkv/v1/generation.grpc.pb.h"

namespace riskkv::testing {

// What one stream of a scripted worker says. Says() returns false when the client is gone.
class Script {
 public:
  Script(std::string worker, grpc::ServerContext* context, grpc::ServerWriter<v1::GenerateEvent>* writer)
      : worker_(std::move(worker)), context_(context), writer_(writer) {}

  bool Started(uint64_t epoch, const std::string& request = "r-1") {
    v1::GenerateEvent e;
    e.mutable_started()->set_request_id(request);
    e.mutable_started()->set_epoch(epoch);
    e.mutable_started()->set_worker_id(worker_);
    e.mutable_started()->set_prompt_tokens(3);
    return writer_->Write(e);
  }
  // Tokens [begin, end) of an epoch; token i is 100 + i with the text "<i>".
  bool Tokens(int64_t begin, int64_t end, uint64_t epoch) {
    for (int64_t i = begin; i < end; ++i) {
      v1::GenerateEvent e;
      e.mutable_token()->set_index(i);
      e.mutable_token()->set_token(static_cast<int32_t>(100 + i));
      e.mutable_token()->set_text(fmt::format("<{}>", i));
      e.mutable_token()->set_epoch(epoch);
      if (!writer_->Write(e)) return false;
    }
    return true;
  }
  bool Moving(const std::string& worker, const std::string& address) {
    v1::GenerateEvent e;
    e.mutable_moving()->set_worker_id(worker);
    e.mutable_moving()->set_address(address);
    e.mutable_moving()->set_migration_id("m-1");
    return writer_->Write(e);
  }
  bool Moved(const std::string& worker, const std::string& address, uint64_t epoch, int64_t start) {
    v1::GenerateEvent e;
    e.mutable_moved()->set_worker_id(worker);
    e.mutable_moved()->set_address(address);
    e.mutable_moved()->set_epoch(epoch);
    e.mutable_moved()->set_next_index(start);
    return writer_->Write(e);
  }
  bool Finished(int64_t tokens, uint64_t epoch) {
    v1::GenerateEvent e;
    e.mutable_finished()->set_reason(v1::FINISH_REASON_LENGTH);
    e.mutable_finished()->set_output_tokens(tokens);
    e.mutable_finished()->set_epoch(epoch);
    return writer_->Write(e);
  }
  bool Superseded() {
    v1::GenerateEvent e;
    e.mutable_superseded();
    return writer_->Write(e);
  }
  // Until the client hangs up.
  void Hold() const {
    while (!context_->IsCancelled()) absl::SleepFor(absl::Milliseconds(2));
  }
  void Sleep(absl::Duration d) const { absl::SleepFor(d); }

 private:
  std::string worker_;
  grpc::ServerContext* context_;
  grpc::ServerWriter<v1::GenerateEvent>* writer_;
};

// Each call takes the next script; the last one stays.
class ScriptedWorker final : public v1::Generation::Service {
 public:
  using Play = std::function<absl::Status(Script&, const v1::AttachRequest&)>;

  explicit ScriptedWorker(std::string id) : id_(std::move(id)) {
    ServerOptions options;
    options.services = {this};
    server_ = RpcServer::Start(options).value();
  }
  ~ScriptedWorker() override { server_->Shutdown(absl::ZeroDuration()); }

  const std::string& id() const { return id_; }
  std::string address() const { return server_->address(); }
  void OnGenerate(Play play) { generate_ = std::move(play); }
  void OnAttach(std::vector<Play> plays) {
    MutexLock lock(mu_);
    attach_.assign(plays.begin(), plays.end());
  }
  std::vector<v1::AttachRequest> attaches() {
    MutexLock lock(mu_);
    return seen_;
  }
  int acknowledged() {
    MutexLock lock(mu_);
    return acknowledged_;
  }

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    Script script(id_, context, writer);
    return ToGrpc(generate_(script, v1::AttachRequest()));
  }
  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                      grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    Play play;
    {
      MutexLock lock(mu_);
      seen_.push_back(*request);
      if (attach_.empty()) return ToGrpc(Unknown(*request));
      play = attach_.front();
      if (attach_.size() > 1) attach_.pop_front();
    }
    Script script(id_, context, writer);
    return ToGrpc(play(script, *request));
  }
  grpc::Status Acknowledge(grpc::ServerContext*, const v1::AcknowledgeRequest*,
                           v1::AcknowledgeReply*) override {
    MutexLock lock(mu_);
    ++acknowledged_;
    return grpc::Status::OK;
  }

  static absl::Status Unknown(const v1::AttachRequest& request) {
    return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST",
                     "request " + request.request_id() + " is not here");
  }

 private:
  const std::string id_;
  Play generate_;
  Mutex mu_;
  std::deque<Play> attach_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::AttachRequest> seen_ ABSL_GUARDED_BY(mu_);
  int acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<RpcServer> server_;
};

// Answers Locate, and Recover as it is told.
class ScriptedCoordinator final : public v1::Coordinator::Service {
 public:
  ScriptedCoordinator() {
    ServerOptions options;
    options.services = {this};
    server_ = RpcServer::Start(options).value();
  }
  ~ScriptedCoordinator() override { server_->Shutdown(absl::ZeroDuration()); }
  std::string address() const { return server_->address(); }
  void SetOwner(const std::string& worker, const std::string& address, uint64_t epoch, int64_t start) {
    MutexLock lock(mu_);
    owner_.set_owner(worker);
    owner_.set_address(address);
    owner_.set_epoch(epoch);
    owner_.set_start_index(start);
  }
  int located() {
    MutexLock lock(mu_);
    return located_;
  }
  using Recovery = std::function<absl::Status(const v1::RecoverRequest&)>;
  // An OK is answered with the owner that was set last.
  void OnRecover(Recovery recovery) { recovery_ = std::move(recovery); }
  grpc::Status Recover(grpc::ServerContext*, const v1::RecoverRequest* request, v1::LocateReply* reply) override {
    if (absl::Status s = recovery_ ? recovery_(*request) : absl::UnimplementedError("no recovery"); !s.ok()) return ToGrpc(s);
    MutexLock lock(mu_);
    *reply = owner_;
    return grpc::Status::OK;
  }
  grpc::Status Locate(grpc::ServerContext*, const v1::LocateRequest* request,
                      v1::LocateReply* reply) override {
    MutexLock lock(mu_);
    ++located_;
    *reply = owner_;
    reply->set_request_id(request->request_id());
    return grpc::Status::OK;
  }

 private:
  Mutex mu_;
  Recovery recovery_;
  v1::LocateReply owner_ ABSL_GUARDED_BY(mu_);
  int located_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_INTEGRATION_CLIENT_SCRIPTED_WORKER_H_
