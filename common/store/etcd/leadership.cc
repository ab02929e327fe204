#include "common/store/etcd/leadership.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv::etcd {
namespace {

// The leader stops this part of a time to live before the end: for clocks that run at different rates.
constexpr int kMarginPart = 10;
constexpr int kRenewPart = 3;
constexpr int kRetryPart = 15;  // after a renewal that was not answered

std::string LeaderKey(const ElectionOptions& o) { return o.prefix + "leader"; }
std::string TermKey(const ElectionOptions& o) { return o.prefix + "term"; }

absl::Status NotLeader(const std::string& message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_LEADER", message);
}

LeaderInfo ParseLeader(const std::string& value) {
  auto j = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return {};
  return {.id = j.value("id", ""), .address = j.value("address", ""), .term = j.value("term", uint64_t{0})};
}

std::string Serialise(const LeaderInfo& leader) {
  return nlohmann::json{{"id", leader.id}, {"address", leader.address}, {"term", leader.term}}.dump();
}

absl::StatusOr<uint64_t> ParseTerm(const std::string& value, const std::string& key) {
  uint64_t term = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), term);
  if (error == std::errc() && end == value.data() + value.size()) return term;
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("etcd key {} holds '{}', no term", key, value));
}

TxnRequest ReadBoth(const ElectionOptions& o) {
  TxnRequest read;
  for (const std::string& key : {LeaderKey(o), TermKey(o)}) read.success.push_back({.kind = Op::Kind::kRange, .key = key});
  return read;
}

}  // namespace

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

absl::StatusOr<std::optional<LeaderInfo>> Leadership::Look(Api& api, const ElectionOptions& options) {
  ASSIGN_OR_RETURN(RangeReply read, api.Range({.key = LeaderKey(options)}));
  if (read.kvs.empty()) return std::nullopt;
  return ParseLeader(read.kvs[0].value);
}

absl::StatusOr<Campaigned> Leadership::Campaign(std::shared_ptr<Api> api, const Clock* clock, const ElectionOptions& options) {
  ASSIGN_OR_RETURN(TxnReply now, api->Txn(ReadBoth(options)));
  if (!now.found.at(0).empty()) return Campaigned{.leader = ParseLeader(now.found[0][0].value)};
  const std::vector<KeyValue>& term = now.found.at(1);
  uint64_t last = 0;
  if (!term.empty()) {
    ASSIGN_OR_RETURN(last, ParseTerm(term[0].value, TermKey(options)));
  }
  std::unique_ptr<Leadership> mine(new Leadership(std::move(api), clock, options));
  mine->term_ = last + 1;
  const absl::Duration asked = clock->Monotonic();
  ASSIGN_OR_RETURN(LeaseGrant lease, mine->api_->Grant(options.ttl));
  mine->lease_ = lease.id;
  mine->ttl_ = lease.ttl;
  const LeaderInfo info{options.id, options.address, mine->term_};
  TxnRequest take;
  take.compares = {{.target = Compare::Target::kCreateRevision, .key = LeaderKey(options), .revision = 0},
                   {.target = Compare::Target::kModRevision, .key = TermKey(options), .revision = term.empty() ? 0 : term[0].mod_revision}};
  take.success = {{.key = LeaderKey(options), .value = Serialise(info), .lease = lease.id},
                  {.key = TermKey(options), .value = fmt::format("{}", mine->term_)}};
  take.failure = ReadBoth(options).success;
  // From here on ~Leadership revokes the lease: also when the answer is lost, the key goes again.
  ASSIGN_OR_RETURN(TxnReply taken, mine->api_->Txn(take));
  if (!taken.succeeded) {
    return Campaigned{.leader = taken.found.at(0).empty() ? LeaderInfo() : ParseLeader(taken.found[0][0].value)};
  }
  mine->key_revision_ = taken.revision;
  {
    MutexLock lock(mine->mu_);
    mine->until_ = asked + lease.ttl - lease.ttl / kMarginPart;
  }
  Leadership* raw = mine.get();
  if (options.renew) mine->thread_ = std::thread([raw] { raw->Run(); });
  return Campaigned{.won = std::move(mine), .leader = info};
}

Leadership::~Leadership() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (lease_ != 0) (void)api_->Revoke(lease_);
}

void Leadership::Lose(const std::string& why) {
  if (lost_.empty()) lost_ = why;
  changed_.NotifyAll();
}

absl::Status Leadership::CheckLocked() const {
  if (!lost_.empty()) return NotLeader(fmt::format("{}: this coordinator led in term {}: {}", api_->name(), term_, lost_));
  if (clock_->Monotonic() < until_) return absl::OkStatus();
  return NotLeader(fmt::format("{}: this coordinator led in term {}, but could not renew its lease in time", api_->name(), term_));
}

absl::Status Leadership::Check() const {
  MutexLock lock(mu_);
  return CheckLocked();
}

void Leadership::Guard(TxnRequest& request) const {
  request.compares.push_back(
      {.target = Compare::Target::kCreateRevision, .key = LeaderKey(options_), .revision = key_revision_});
  request.compares.push_back({.target = Compare::Target::kValue, .key = TermKey(options_), .value = fmt::format("{}", term_)});
  std::vector<Op> reads = ReadBoth(options_).success;
  request.failure.insert(request.failure.begin(), reads.begin(), reads.end());
}

absl::Status Leadership::Judge(const std::vector<std::vector<KeyValue>>& found) {
  const std::vector<KeyValue>& key = found.at(0);
  const std::vector<KeyValue>& term = found.at(1);
  const bool held = !key.empty() && key[0].create_revision == key_revision_;
  const std::string term_now = term.empty() ? "none" : term[0].value;
  if (held && term_now == fmt::format("{}", term_)) return absl::OkStatus();
  std::string who = "nobody leads now";
  if (!key.empty()) {
    LeaderInfo leader = ParseLeader(key[0].value);
    who = fmt::format("{} at {} leads now", leader.id, leader.address);
  }
  MutexLock lock(mu_);
  Lose(fmt::format("the term is {}, {}", term_now, who));
  return CheckLocked();
}

bool Leadership::Renew() {
  const absl::Duration asked = clock_->Monotonic();
  absl::StatusOr<absl::Duration> ttl = api_->KeepAlive(lease_);
  MutexLock lock(mu_);
  if (!CheckLocked().ok()) {
    Lose("its lease was not renewed in time");
    return false;
  }
  if (!ttl.ok()) return true;  // until the time is up
  if (*ttl <= absl::ZeroDuration()) {
    Lose("its lease has expired");
    return false;
  }
  until_ = std::max(until_, asked + *ttl - *ttl / kMarginPart);
  return true;
}

void Leadership::Run() {
  absl::Duration wait = ttl_ / kRenewPart;
  for (;;) {
    {
      MutexLock lock(mu_);
      if (!stop_) changed_.WaitFor(mu_, absl::ToChronoNanoseconds(wait));
      if (stop_ || !lost_.empty()) return;
    }
    const absl::Duration before = clock_->Monotonic();
    if (!Renew()) return;
    MutexLock lock(mu_);
    const bool renewed = until_ >= before + ttl_ - ttl_ / kMarginPart;
    wait = renewed ? ttl_ / kRenewPart : ttl_ / kRetryPart;
  }
}

}  // namespace riskkv::etcd
