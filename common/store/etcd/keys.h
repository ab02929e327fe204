// Where the records of the etcd store are; see etcd_store.h.
#ifndef RISKKV_COMMON_STORE_ETCD_KEYS_H_
#define RISKKV_COMMON_STORE_ETCD_KEYS_H_

#include <string>

namespace riskkv::etcd {

inline std::string OwnerKey(const std::string& prefix, const std::string& request) { return prefix + "owners/" + request; }
inline std::string JobKey(const std::string& prefix, const std::string& migration) { return prefix + "jobs/" + migration; }
inline std::string CounterKey(const std::string& prefix, const std::string& name) { return prefix + "counters/" + name; }
inline std::string IndexFolder(const std::string& prefix) { return prefix + "index/"; }
// Entries of other requests may be below it as well, since ids may contain slashes: the entry says whose it is.
inline std::string IndexFolder(const std::string& prefix, const std::string& request) { return IndexFolder(prefix) + request + "/"; }
inline std::string IndexKey(const std::string& prefix, const std::string& request, const std::string& migration) {
  return IndexFolder(prefix, request) + migration;
}

}  // namespace riskkv::etcd

#endif  // RISKKV_COMMON_STORE_ETCD_KEYS_H_
