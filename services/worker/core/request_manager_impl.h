// The RequestManager there is. Its methods are spread over request_clients.cc, request_source.cc, request_destination.cc and
// request_manager.cc by who calls them.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_IMPL_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_IMPL_H_

#include <memory>
#include <string>
#include <vector>

#include "services/worker/core/decode_loop.h"
#include "services/worker/core/request_manager.h"
#include "services/worker/core/request_record.h"
#include "services/worker/core/request_runner.h"

namespace riskkv::worker {

// Threading: state under ManagerState::mu; the engine's unsafe calls on the loop's thread only. The lock is never held while the
// engine computes or copies cells; opening and closing a sequence are short enough to hold it.
class RequestManagerImpl final : public RequestManager {
 public:
  RequestManagerImpl(std::shared_ptr<ManagerState> state, std::unique_ptr<Engine> engine);
  ~RequestManagerImpl() override { Stop(); }
  void Start() { loop_.Start(); }

  absl::StatusOr<std::string> Admit(RequestParams params, std::vector<Token> prompt) override;
  absl::StatusOr<std::unique_ptr<Subscription>> Attach(const std::string& id, int64_t next_index, uint64_t min_epoch) override;
  absl::StatusOr<bool> Cancel(const std::string& id) override;
  absl::Status Acknowledge(const std::string& id) override;
  absl::StatusOr<RequestSnapshot> Get(const std::string& id) const override;
  absl::StatusOr<RequestSnapshot> Look(const std::string& id) const override;
  std::vector<RequestSnapshot> List(bool include_ended) const override;

  absl::Status BeginMove(const std::string& id, uint64_t expected_epoch) override;
  absl::StatusOr<KvBlock> Export(const std::string& id, TokenRange range, const std::vector<int>& layers) override;
  absl::StatusOr<RequestSnapshot> Pause(const std::string& id) override;
  void AnnounceMoving(const std::string& id, const MoveTarget& candidate) override;
  absl::Status ResumeHere(const std::string& id, uint64_t epoch) override;
  absl::Status MarkMoved(const std::string& id, const MoveTarget& owner) override;
  void FreeMoved(const std::string& id) override;

  absl::StatusOr<ReservationId> Reserve(int64_t cells) override;
  absl::Status Append(ReservationId reservation, const KvBlock& block) override;
  absl::Status Prefill(ReservationId reservation, const std::vector<Token>& history, int64_t upto) override;
  int64_t ReservedLength(ReservationId reservation) const override;
  absl::Status Install(ReservationId reservation, IncomingRequest request) override;
  absl::Status Activate(const std::string& id, uint64_t epoch, int64_t start_index) override;
  absl::Status AllowDelivery(const std::string& id) override;
  void Drop(const std::string& id, const MoveTarget* owner) override;
  void Release(ReservationId reservation) override;

  void Stop() override;
  ManagerLoad Load() const override;
  const ModelFacts& facts() const override { return engine_->facts(); }
  const EngineLimits& limits() const override { return engine_->limits(); }
  const Engine& engine() const override { return *engine_; }

 private:
  // --- on the loop's thread ---
  absl::StatusOr<KvBlock> ExportNow(const std::string& id, TokenRange range, const std::vector<int>& layers);
  absl::Status RequestPause(const std::string& id);
  absl::StatusOr<ReservationId> ReserveNow(int64_t cells);
  absl::Status AppendNow(ReservationId reservation, const KvBlock& block);
  // Computes one chunk; true when `upto` is reached.
  absl::StatusOr<bool> PrefillNow(ReservationId reservation, const std::vector<Token>& history, int64_t upto);
  absl::Status InstallNow(ReservationId reservation, IncomingRequest& request);
  void DropNow(const std::string& id, const MoveTarget* owner);
  void FreeMovedNow(const std::string& id);

  // Room for the cells up to `upto` of a reservation, and its sequence.
  absl::StatusOr<SeqId> GrowReservation(ReservationId reservation, int64_t upto) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_->mu);
  absl::StatusOr<Reservation*> FindReservation(ReservationId reservation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_->mu);
  RecordPtr MakeIncoming(IncomingRequest& request) const;
  // Decodes on here: from paused, or from moved when the move was rolled back.
  void Reschedule(const RecordPtr& record, uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_->mu);

  const std::shared_ptr<ManagerState> s_;
  const std::unique_ptr<Engine> engine_;
  RequestRunner runner_;
  DecodeLoop loop_;  // last: it ends first
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_IMPL_H_
