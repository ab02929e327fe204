// What the coordinator knows of workers and their requests: riskkv.v1.WorkerInfo and its parts as plain data.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_WORKER_TYPES_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_WORKER_TYPES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/cost/model.h"
#include "common/kv/layout.h"
#include "common/migration/records.h"

namespace riskkv::coordinator {

struct WorkerLoad {
  int64_t cells_total = 0;
  int64_t cells_used = 0;
  int slots_total = 0;
  int slots_used = 0;
  int queued = 0;
  int running = 0;
  double load = 0;
  int moves_in = 0;
  int moves_out = 0;
  int moves_limit = 0;
  int pins = 0;
};

struct WorkerCosts {
  double prefill_p1 = 0;
  double prefill_p2 = 0;
  double decode_s = 0;
  double decode_s_per_token = 0;
  double rebuild_s = 0;
  double import_s = 0;
  double export_s = 0;
  double coded_encode_s = 0;
  double coded_decode_s = 0;
};

struct GroupInfo {
  std::vector<int> anchors;
  std::vector<int> targets;
  double risk = 0;
  int64_t predictor_bytes = 0;
};

struct ProfileInfo {
  std::string name;
  double epsilon = 0;
  std::vector<int> groups;
  std::vector<int> omitted_layers;
  bool gated = false;
  double mean = 0;
  double upper90 = 0;
  double confirm_mean = 0;
  double confirm_upper90 = 0;
  int first_exact = 0;
  int last_exact = 0;
  bool coded = false;  // a profile of CODED, not of RISK
  double coded_token_bytes = 0;
  double end_token_bytes = 0;
  double times_fewer = 0;
};

struct SetInfo {
  std::string digest;
  Fingerprint fingerprint;
  std::string weight_type;
  int64_t file_bytes = 0;
  std::vector<GroupInfo> groups;
  std::vector<ProfileInfo> profiles;
};

struct WorkerInfo {
  WorkerName name;  // id, boot, addresses
  std::string model;
  Fingerprint fingerprint;
  WorkerLoad load;
  WorkerCosts costs;
  std::vector<SetInfo> sets;
  std::string backend;
  std::string version;
  std::set<Mode> modes;  // empty: not said
  bool serving = true;
  int engine_threads = 0;
  double uptime_seconds = 0;

  bool Holds(const std::string& set_digest) const {
    for (const SetInfo& set : sets) {
      if (set.digest == set_digest) return true;
    }
    return false;
  }
};

// Cells of `begin`..`end` were rebuilt with this set and profile.
struct ProvenanceInfo {
  TokenRange range;
  std::string predictor_set;
  std::string profile;
};

// A request as its owner answers for it.
struct RequestInfo {
  std::string request_id;
  uint64_t epoch = 0;
  int64_t start_index = 0;  // first output index of the epoch
  bool finished = false;
  bool moved = false;  // the worker holds it no longer
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t n_kv = 0;
  int64_t max_tokens = 0;
  std::vector<ProvenanceInfo> provenance;
  // Sampling and stop parameters as the bytes of a riskkv.v1.ReserveRequest with nothing else in it: the destination judges
  // them, the coordinator only passes them on.
  std::string parameters;

  int64_t n_tokens() const { return prompt_tokens + output_tokens; }
  int64_t tokens_left() const { return max_tokens > output_tokens ? max_tokens - output_tokens : 0; }
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_WORKER_TYPES_H_
