// The cost model of design.md, 7, and the decision on top of it. Pure functions: every input is in `Inputs`, every input and
// every term comes back in the Plan. Seconds, bytes and tokens throughout.
#ifndef RISKKV_COMMON_COST_MODEL_H_
#define RISKKV_COMMON_COST_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/migration/plan.h"

namespace riskkv::cost {

// Shape of the model's cache.
struct CacheShape {
  int n_layer = 0;
  int kv = 0;             // elements of K (or V) of one token in one layer
  int element_bytes = 2;
  int64_t bytes_per_token_layer() const { return int64_t{2} * kv * element_bytes; }
};

struct RequestFacts {
  int64_t n_tokens = 0;     // prompt and output
  int64_t n_kv = 0;         // cells
  int64_t tokens_left = 0;  // it may still produce
};

// Of one worker, as it measures them itself.
struct WorkerFacts {
  double prefill_p1 = 0;  // prefill of T tokens takes p1*T + p2*T^2
  double prefill_p2 = 0;
  double decode_s = 0;    // one token at short context
  double decode_s_per_token = 0;
  double rebuild_s = 0;   // one token of one group
  double import_s = 0;    // one token of all layers
  double export_s = 0;
  double coded_encode_s = 0;  // one token of all layers through the codec, and back; 0: it has none
  double coded_decode_s = 0;
  double load = 0;        // share of time the decode loop is busy
  int running = 0;        // requests
};

struct LinkFacts {
  double bytes_per_second = 0;
  double rtt_seconds = 0;
  bool assumed = false;  // no transfer has been seen: a default
  double age_seconds = 0;
};

// The profile a RISK move would use.
struct ProfileFacts {
  std::string predictor_set;
  std::string profile;
  int omitted_layers = 0;
  int groups = 0;
  int64_t predictor_bytes = 0;  // M_pred: of the profile's groups
  int64_t set_bytes = 0;        // what a placement ships: the whole file
  int64_t exact_ends = 0;       // tokens that go for all layers
  bool absent = false;          // at the destination
  double moves = 0;             // lossy moves that used the set so far
  bool gated = false;
};

// The profile a CODED move would use.
struct CodedFacts {
  std::string predictor_set;
  std::string profile;
  double token_bytes = 0;      // of a token between the ends
  double end_token_bytes = 0;  // of one of the ends, and of those decoded during the move
  int64_t ends = 0;            // tokens
  int64_t set_bytes = 0;
  bool absent = false;  // at the destination
  double moves = 0;     // lossy moves that used the set so far
  bool gated = false;
};

struct Inputs {
  std::string source;
  std::string destination;
  CacheShape shape;
  RequestFacts request;
  WorkerFacts from;
  WorkerFacts to;
  LinkFacts link;
  std::optional<ProfileFacts> profile;
  std::optional<CodedFacts> coded;
  std::map<Mode, std::string> impossible;  // modes that cannot be, and why
  std::map<Mode, double> corrections;      // factor a mode; absent: 1
  double commit_seconds = 0.005;           // the durable compare-and-swap
  double max_pause_seconds = 0.2;
  Mode asked = Mode::kAuto;
  bool must_move = false;
};

// ceil(M_pred / M_saved): moves that must share a placed set before it saves bytes on the wire. 0 when nothing is saved. Of a coded
// profile the whole file counts.
double BreakEvenMoves(const CacheShape& shape, const ProfileFacts& profile, int64_t n_kv);
double BreakEvenMoves(const CacheShape& shape, const CodedFacts& coded, int64_t n_kv);

// Costs of FULL, RISK, CODED, REPLAY and STAY, and which one to take. With a mode asked for, that one, unless it is impossible (then
// `chosen` is still it and its why_not says why) or RISK or CODED of no more tokens than its ends, which is planned as FULL.
Plan MakePlan(const Inputs& inputs);

}  // namespace riskkv::cost

#endif  // RISKKV_COMMON_COST_MODEL_H_
