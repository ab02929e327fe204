#include "common/base/failpoint.h"

namespace riskkv {

Failpoints& Failpoints::Get() {
  static Failpoints* const table = new Failpoints();  // never destroyed: threads may outlive main
  return *table;
}

void Failpoints::Set(const std::string& place, const std::string& scope, std::function<void()> handler) {
  MutexLock lock(mu_);
  handlers_[{place, scope}] = std::move(handler);
  armed_ = static_cast<int>(handlers_.size() + mutants_.size());
}

void Failpoints::Clear(const std::string& scope) {
  MutexLock lock(mu_);
  for (auto it = handlers_.begin(); it != handlers_.end();) it = it->first.second == scope ? handlers_.erase(it) : std::next(it);
  armed_ = static_cast<int>(handlers_.size() + mutants_.size());
}

void Failpoints::Hit(std::string_view place, std::string_view scope) {
  if (armed_ == 0) return;
  std::function<void()> handler;
  {
    MutexLock lock(mu_);
    auto it = handlers_.find({std::string(place), std::string(scope)});
    if (it == handlers_.end()) return;
    handler = it->second;
  }
  handler();
}

void Failpoints::SetMutant(const std::string& name, bool on) {
  MutexLock lock(mu_);
  if (on) {
    mutants_.insert(name);
  } else {
    mutants_.erase(name);
  }
  armed_ = static_cast<int>(handlers_.size() + mutants_.size());
}

bool Failpoints::Mutant(std::string_view name) {
  if (armed_ == 0) return false;
  MutexLock lock(mu_);
  return mutants_.count(name) > 0;
}

}  // namespace riskkv
