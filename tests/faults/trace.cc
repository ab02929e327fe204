#include "tests/faults/trace.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/migration/transitions.h"
#include "fmt/format.h"

namespace riskkv::faults {
namespace {

// Whoever holds the tokens set a new owner.
bool Recovered(const OwnerRecord& r) { return r.epoch > 1 && r.last_committed.empty(); }

bool IsOpenFor(const OwnerRecord& r, const Fence& f) {
  return r.open && r.open->migration_id == f.migration_id && r.open->attempt == f.attempt;
}

std::string RecordText(const OwnerRecord& r) {
  return fmt::format("epoch {} owner {} start {}{}{}{}{}", r.epoch, r.owner.boot_id, r.start_index,
                     r.open ? fmt::format(" open {}/{}", r.open->migration_id, r.open->attempt) : "", r.resumed ? "" : " not resumed",
                     r.rolled_back ? " rolled back" : "", r.cancelled ? " cancelled" : "");
}

}  // namespace

void Trace::Started(int producer, const std::string& boot) {
  MutexLock lock(mu_);
  boots_[producer] = boot;
}

void Trace::Owner(const OwnerRecord& record, bool with_job) {
  MutexLock lock(mu_);
  last_owner_ = std::make_shared<const OwnerRecord>(record);
  entries_.push_back({.kind = Kind::kOwner, .owner = last_owner_, .with_job = with_job});
}

void Trace::Sampled(int producer, int64_t index, int64_t n_prompt) {
  MutexLock lock(mu_);
  entries_.push_back({.kind = Kind::kSampled, .producer = producer, .index = index, .n_prompt = n_prompt});
}

void Trace::FinalSent(const Fence& fence) {
  MutexLock lock(mu_);
  entries_.push_back({.kind = Kind::kFinal, .fence = std::make_shared<const Fence>(fence)});
}

void Trace::FinalRefused(const Fence& fence) {
  MutexLock lock(mu_);
  entries_.push_back({.kind = Kind::kRefused, .fence = std::make_shared<const Fence>(fence)});
}

void Trace::RecoverAsked() {
  MutexLock lock(mu_);
  entries_.push_back({.kind = Kind::kRecover});
}

void Trace::Reset() {
  MutexLock lock(mu_);
  entries_.clear();
  last_owner_.reset();
  delivered_.clear();
  accepted_.clear();
  early_.clear();
}

void Trace::Delivered(int64_t index, int producer, uint64_t epoch) {
  MutexLock lock(mu_);
  delivered_[index][producer] = epoch;
  if (last_owner_ == nullptr) return;
  const OwnerRecord& r = *last_owner_;
  if (epoch == r.epoch && !r.resumed && index >= r.start_index) {
    early_.push_back(fmt::format("index {} of epoch {} was delivered before RESUMED", index, epoch));
  }
  if (r.rolled_back && epoch + 1 == r.epoch && index >= r.start_index) {
    early_.push_back(fmt::format("index {} of epoch {} was delivered, which was rolled back", index, epoch));
  }
}

void Trace::Accepted(int64_t index, int32_t token, int producer, uint64_t epoch) {
  MutexLock lock(mu_);
  accepted_.push_back({index, token, producer, epoch});
}

OwnerRecord Trace::LastOwner() {
  MutexLock lock(mu_);
  return last_owner_ == nullptr ? OwnerRecord() : *last_owner_;
}

void Trace::CheckRecords(std::vector<std::string>& out) {
  std::optional<OwnerRecord> before;
  bool asked = false;
  for (const Entry& e : entries_) {
    asked = asked || e.kind == Kind::kRecover;
    if (e.kind != Kind::kOwner) continue;
    const OwnerRecord& r = *e.owner;
    const bool decided = before ? r.epoch != before->epoch || r.open != before->open || r.resumed != before->resumed : r.open.has_value();
    if (decided && !e.with_job && !(asked && Recovered(r))) out.push_back("a decision was written without its job: " + RecordText(r));
    if (before && (r.epoch < before->epoch || r.epoch > before->epoch + 1)) {
      out.push_back(fmt::format("epoch {} follows epoch {}", r.epoch, before->epoch));
    }
    if (before && r.owner.boot_id != before->owner.boot_id) {
      const bool commit = before->open && r.last_committed == before->open->migration_id && r.last_attempt == before->open->attempt &&
                          r.owner.boot_id == before->open->destination.boot_id && !r.resumed;
      const bool roll_back = !before->resumed && r.rolled_back && r.owner.boot_id == before->previous.boot_id;
      if (!commit && !roll_back && !(asked && Recovered(r))) {
        out.push_back(fmt::format("the owner changed by none of commit, roll-back and Recover: {} then {}", RecordText(*before), RecordText(r)));
      }
    }
    before = r;
  }
}

void Trace::CheckProduced(const std::string& request_id, int64_t n_prompt, std::vector<std::string>& out) {
  OwnerRecord record = ImplicitOwner(request_id, {.boot_id = BootOfRequest(request_id).value_or("?")});
  std::set<std::string> owners = {record.owner.boot_id};
  std::optional<Fence> doubt;
  for (const Entry& e : entries_) {
    if (e.kind == Kind::kOwner) {
      record = *e.owner;
      owners.insert(record.owner.boot_id);
      if (doubt && !IsOpenFor(record, *doubt)) doubt.reset();
      continue;
    }
    if (e.kind == Kind::kFinal) {
      if (IsOpenFor(record, *e.fence)) doubt = *e.fence;
      continue;
    }
    if (e.kind == Kind::kRefused) doubt.reset();
    if (e.kind != Kind::kSampled) continue;
    if (e.n_prompt != n_prompt) continue;
    const std::string& boot = boots_[e.producer];
    if (doubt && boot == doubt->source_boot_id) {
      out.push_back(fmt::format("{} produced index {} in doubt, after FINAL", boot, e.index));
    } else if (owners.count(boot) == 0) {
      out.push_back(fmt::format("{} produced index {} without ever having been the owner", boot, e.index));
    } else if (boot != record.owner.boot_id && !record.rolled_back && !Recovered(record)) {
      out.push_back(fmt::format("{} produced index {} while {} was the owner", boot, e.index, record.owner.boot_id));
    }
  }
}

void Trace::CheckAccepted(const std::string& request_id, std::vector<std::string>& out) {
  struct Epoch {
    std::string boot;
    int64_t start = 0;
  };
  std::map<uint64_t, Epoch> epochs = {{1, {BootOfRequest(request_id).value_or("?"), 0}}};
  bool recovered = false;
  for (const Entry& e : entries_) {
    if (e.kind != Kind::kOwner) continue;
    epochs[e.owner->epoch] = {e.owner->owner.boot_id, e.owner->start_index};
    recovered = recovered || Recovered(*e.owner);
  }
  std::map<int64_t, int32_t> seen;
  for (const Token& t : accepted_) {
    auto epoch = epochs.find(t.epoch);
    if (epoch == epochs.end()) {
      out.push_back(fmt::format("index {} was accepted from epoch {}, which never was", t.index, t.epoch));
      continue;
    }
    if (boots_[t.producer] != epoch->second.boot) {
      out.push_back(fmt::format("index {} of epoch {} was accepted from {}, {} owned it", t.index, t.epoch, boots_[t.producer], epoch->second.boot));
    }
    if (t.index < epoch->second.start) {
      out.push_back(fmt::format("index {} was accepted from epoch {}, which starts at {}", t.index, t.epoch, epoch->second.start));
    }
    for (auto later = std::next(epoch); later != epochs.end(); ++later) {
      if (t.index < later->second.start) continue;
      out.push_back(fmt::format("index {} was accepted from epoch {}, but epoch {} starts at {}", t.index, t.epoch, later->first, later->second.start));
    }
    auto [it, first] = seen.emplace(t.index, t.token);
    if (!first && it->second != t.token) out.push_back(fmt::format("two tokens were accepted at index {}", t.index));
  }
  if (recovered) return;  // a lost owner that comes back may go on unheard
  for (const auto& [index, producers] : delivered_) {
    if (producers.size() > 1) out.push_back(fmt::format("index {} was delivered from {} producers", index, producers.size()));
  }
}

std::vector<std::string> Trace::Violations(const std::string& request_id, int64_t n_prompt) {
  MutexLock lock(mu_);
  std::vector<std::string> out = early_;
  CheckRecords(out);
  CheckProduced(request_id, n_prompt, out);
  CheckAccepted(request_id, out);
  if (out.size() > 3) out.resize(3);  // the rest follows from them
  return out;
}

std::string Trace::Text() {
  MutexLock lock(mu_);
  std::string text;
  int producer = 0;
  int64_t from = -1, last = -1;
  auto flush = [&] {
    if (from >= 0) text += fmt::format("  {} produced {}..{}\n", boots_[producer], from, last);
    from = -1;
  };
  for (const Entry& e : entries_) {
    if (e.kind == Kind::kSampled) {
      if (from < 0 || producer != e.producer || e.index != last + 1) {
        flush();
        from = e.index;
        producer = e.producer;
      }
      last = e.index;
      continue;
    }
    flush();
    if (e.kind == Kind::kRecover) {
      text += "  a client asks for a new owner\n";
      continue;
    }
    text += e.kind == Kind::kOwner ? "  record: " + RecordText(*e.owner) + "\n"
                                   : fmt::format("  FINAL of {}/{}{}\n", e.fence->migration_id, e.fence->attempt, e.kind == Kind::kRefused ? " refused" : "");
  }
  flush();
  return text;
}

}  // namespace riskkv::faults
