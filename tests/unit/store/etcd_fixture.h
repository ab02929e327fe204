// A store that leads, over a fake etcd.
#ifndef RISKKV_TESTS_UNIT_STORE_ETCD_FIXTURE_H_
#define RISKKV_TESTS_UNIT_STORE_ETCD_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "common/store/etcd/etcd_store.h"
#include "tests/unit/store/fake_etcd.h"

namespace riskkv {

inline etcd::ElectionOptions FakeElection(const std::string& id) {
  return {.id = id, .address = id + ":7070", .ttl = absl::Seconds(10), .renew = false};
}

// Null when another one leads.
inline std::unique_ptr<etcd::EtcdStore> LeadingStore(const std::shared_ptr<testing::FakeEtcd>& etcd, const Clock* clock,
                                                     const std::string& id, etcd::Leadership** leadership = nullptr,
                                                     bool renew = false) {
  etcd::ElectionOptions options = FakeElection(id);
  options.renew = renew;
  auto campaigned = etcd::Leadership::Campaign(etcd, clock, options);
  if (!campaigned.ok() || !campaigned->won) return nullptr;
  if (leadership != nullptr) *leadership = campaigned->won.get();
  return std::make_unique<etcd::EtcdStore>(etcd, std::move(campaigned->won), options.prefix);
}

}  // namespace riskkv

#endif  // RISKKV_TESTS_UNIT_STORE_ETCD_FIXTURE_H_
