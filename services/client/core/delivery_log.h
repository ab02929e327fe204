// The client's own account of what reached it: its own counts of lost and doubled indices and its own measure
// of the pause, so that nothing has to be believed of the services.
#ifndef RISKKV_SERVICES_CLIENT_CORE_DELIVERY_LOG_H_
#define RISKKV_SERVICES_CLIENT_CORE_DELIVERY_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/client/core/events.h"

namespace riskkv::client {

struct Delivery {
  int64_t index = 0;
  int32_t token = -1;
  uint64_t epoch = 0;
  absl::Duration received;  // client's monotonic clock
};

// Where one owner's tokens end and the next one's begin.
struct OwnerChange {
  int64_t index = 0;  // first token of the new epoch
  uint64_t from_epoch = 0;
  uint64_t to_epoch = 0;
  absl::Duration pause;  // between the last token of the old and the first of the new owner
};

// Not thread-safe.
class DeliveryLog {
 public:
  explicit DeliveryLog(int64_t first_index = 0) : first_index_(first_index) {}

  void Add(const TokenEvent& token, absl::Duration received);

  const std::vector<Delivery>& deliveries() const { return deliveries_; }
  std::vector<int32_t> Tokens() const;
  // Indices in [first_index, output_tokens) that never came.
  int64_t Lost(int64_t output_tokens) const;
  // Deliveries of an index beyond its first.
  int64_t Duplicated() const;
  std::vector<OwnerChange> OwnerChanges() const;
  // The median time between two tokens of one owner; zero with fewer than two.
  absl::Duration MedianGap() const;

 private:
  int64_t first_index_;
  std::vector<Delivery> deliveries_;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_CORE_DELIVERY_LOG_H_
