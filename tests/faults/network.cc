#include "tests/faults/network.h"

#include <algorithm>

#include "common/base/status.h"

namespace riskkv::faults {

const char* Name(Message message) {
  switch (message) {
    case Message::kGetRequest: return "GetRequest";
    case Message::kReserve: return "Reserve";
    case Message::kStartMove: return "StartMove";
    case Message::kMoveEvents: return "MoveEvents";
    case Message::kDecide: return "Decide";
    case Message::kQueryAttempt: return "QueryAttempt";
    case Message::kAdopt: return "Adopt";
    case Message::kPrepared: return "Prepared";
    case Message::kResumed: return "Resumed";
    case Message::kResolve: return "Resolve";
    case Message::kLease: return "Lease";
    case Message::kDeclare: return "DeclareRound";
    case Message::kPush: return "Push";
    case Message::kFinal: return "Final";
    case Message::kAbort: return "Abort";
    case Message::kAttach: return "Attach";
    case Message::kLocate: return "Locate";
    case Message::kCancel: return "Cancel";
    case Message::kCancelRequest: return "CancelRequest";
  }
  return "?";
}

const char* Name(Trouble trouble) {
  switch (trouble) {
    case Trouble::kDrop: return "drop";
    case Trouble::kLoseReply: return "lose reply";
    case Trouble::kDelay: return "delay";
    case Trouble::kDouble: return "double";
    case Trouble::kReorder: return "reorder";
    case Trouble::kStall: return "stall";
  }
  return "?";
}

const std::vector<Message>& ControlMessages() {
  static const std::vector<Message> kMessages = {Message::kGetRequest, Message::kReserve, Message::kStartMove, Message::kMoveEvents,
                                                 Message::kDecide,     Message::kQueryAttempt, Message::kPrepared, Message::kResumed,
                                                 Message::kResolve,    Message::kDeclare,      Message::kFinal,    Message::kAbort,
                                                 Message::kAttach,     Message::kLocate};
  return kMessages;
}

void Network::Drain() {
  MutexLock lock(mu_);
  while (running_ > 0) idle_.Wait(mu_);
}

void Network::Spawn(std::function<void()> run) {
  {
    MutexLock lock(mu_);
    ++running_;
  }
  std::thread([this, run = std::move(run)]() mutable {
    run();
    run = nullptr;  // what it owned goes before anybody is told
    MutexLock lock(mu_);
    if (--running_ == 0) idle_.NotifyAll();
  }).detach();
}

void Network::Add(const Rule& rule) {
  MutexLock lock(mu_);
  rules_.push_back(rule);
}

void Network::ClearRules() {
  MutexLock lock(mu_);
  rules_.clear();
}

void Network::Cut(const std::string& a, const std::string& b) {
  MutexLock lock(mu_);
  cuts_.insert({a, b});
  cuts_.insert({b, a});
}

void Network::MendAll() {
  MutexLock lock(mu_);
  cuts_.clear();
}

bool Network::IsCut(const std::string& a, const std::string& b) {
  MutexLock lock(mu_);
  return cuts_.count({a, b}) > 0;
}

std::optional<Rule> Network::Take(Message message) {
  MutexLock lock(mu_);
  auto it = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& r) { return r.message == message; });
  if (it == rules_.end()) return std::nullopt;
  const Rule rule = *it;
  if (--it->times <= 0) rules_.erase(it);
  return rule;
}

absl::Status Network::Unreachable(const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", why);
}

absl::Status Network::Way(const Process& from, const Process* to, const CallTerms& terms, absl::Time start) {
  for (;;) {
    if (from.dead) return absl::CancelledError("this process is dead");
    if (from.paused) {
      from.Stand();
      continue;
    }
    if (terms.cancel != nullptr && terms.cancel->cancelled()) return absl::CancelledError("cancelled");
    if (to == nullptr || to->dead) return Unreachable("connection refused");
    if (IsCut(from.id, to->id)) return Unreachable("the link is cut");
    if (absl::Now() - start > terms.timeout) return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS", "no answer in time");
    if (!to->paused) return absl::OkStatus();
    absl::SleepFor(absl::Microseconds(500));
  }
}

absl::Status Network::Pass(const std::optional<Rule>& rule, const Process& from, const Process* to, const CallTerms& terms,
                           absl::Time start) {
  if (absl::Status s = Way(from, to, terms, start); !s.ok() || !rule) return s;
  switch (rule->trouble) {
    case Trouble::kDrop: return Unreachable("the message was lost");
    case Trouble::kReorder: return Unreachable("the message is late");
    case Trouble::kDelay: absl::SleepFor(rule->by); break;
    case Trouble::kStall:
      while (absl::Now() - start < std::min(terms.timeout, absl::Duration(absl::Milliseconds(400)))) {
        absl::SleepFor(absl::Milliseconds(1));
        if (absl::Status s = Way(from, to, terms, start); !s.ok()) return s;
      }
      return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS", "no answer in time");
    default: break;
  }
  return Way(from, to, terms, start);
}

}  // namespace riskkv::faults
