// A client's view of one request: where it has read to.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_SUBSCRIPTION_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_SUBSCRIPTION_H_

#include <memory>
#include <optional>

#include "services/worker/core/request_record.h"

namespace riskkv::worker {

// Next is called by one thread at a time. May outlive the manager.
class RequestSubscription : public Subscription {
 public:
  // The record's newest subscription from now on.
  static std::unique_ptr<Subscription> Open(std::shared_ptr<ManagerState> state, RecordPtr record, int64_t next_index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu);
  ~RequestSubscription() override;
  absl::StatusOr<RequestEvent> Next(absl::Duration timeout) override;

 private:
  RequestSubscription(std::shared_ptr<ManagerState> state, RecordPtr record, int64_t next_index, uint64_t number)
      : s_(std::move(state)), record_(std::move(record)), next_(next_index), number_(number), late_(record_->cancel_requested) {}
  // What there is now; nullopt: wait.
  std::optional<absl::StatusOr<RequestEvent>> Ready() ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_->mu);
  RequestEvent Last(RequestEvent event);

  const std::shared_ptr<ManagerState> s_;
  const RecordPtr record_;
  int64_t next_;
  const uint64_t number_;
  const bool late_;  // attached after the cancel, to read what there is
  uint64_t announcements_seen_ = 0;
  bool done_ = false;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_SUBSCRIPTION_H_
