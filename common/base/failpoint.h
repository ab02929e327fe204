// Places in the code where a test may put a fault in, and mutants: rules of the protocol that a test may break on purpose, to show
// that breaking them is found. Both are compiled to nothing without RISKKV_FAILPOINTS, which no shipped build has.
#ifndef RISKKV_COMMON_BASE_FAILPOINT_H_
#define RISKKV_COMMON_BASE_FAILPOINT_H_

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"

namespace riskkv {

// The one table of a process: the code under test cannot be handed it. Thread-safe.
class Failpoints {
 public:
  static Failpoints& Get();

  // Runs `handler` each time the place is reached for `scope` (a migration id). Handlers run on the thread that reached it.
  void Set(const std::string& place, const std::string& scope, std::function<void()> handler);
  void Clear(const std::string& scope);
  void Hit(std::string_view place, std::string_view scope);

  void SetMutant(const std::string& name, bool on);
  bool Mutant(std::string_view name);

 private:
  std::atomic<int> armed_{0};  // nothing to look up while it is 0
  Mutex mu_;
  std::map<std::pair<std::string, std::string>, std::function<void()>> handlers_ ABSL_GUARDED_BY(mu_);
  std::set<std::string, std::less<>> mutants_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv

#ifdef RISKKV_FAILPOINTS
#define RISKKV_FAILPOINT(place, scope) ::riskkv::Failpoints::Get().Hit(place, scope)
#define RISKKV_MUTANT(name) ::riskkv::Failpoints::Get().Mutant(name)
#else
#define RISKKV_FAILPOINT(place, scope) static_cast<void>(0)
#define RISKKV_MUTANT(name) false
#endif

#endif  // RISKKV_COMMON_BASE_FAILPOINT_H_
