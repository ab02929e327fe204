// The cost of each mode alone. Internal to common/cost.
#ifndef RISKKV_COMMON_COST_TERMS_H_
#define RISKKV_COMMON_COST_TERMS_H_

#include "common/cost/model.h"

namespace riskkv::cost {

ModeCost FullCost(const Inputs& in);
ModeCost RiskCost(const Inputs& in);
ModeCost CodedCost(const Inputs& in);
ModeCost ReplayCost(const Inputs& in);
// Staying moves nothing: its total is what the tokens left cost more here than there.
ModeCost StayCost(const Inputs& in);

// Tokens of a RISK move whose omitted layers are really left out; of a CODED one that are coded, and all its bytes.
int64_t OmittedTokens(const ProfileFacts& profile, int64_t n_kv);
int64_t CodedTokens(const CodedFacts& coded, int64_t n_kv);
int64_t CodedBytes(const CodedFacts& coded, int64_t n_kv);
// Seconds a token of this request takes on a worker that runs `running` requests with it.
double TokenSeconds(const WorkerFacts& worker, int64_t context, int running);
// What a move takes away from the other requests of both workers.
double Disturbance(const Inputs& in);

}  // namespace riskkv::cost

#endif  // RISKKV_COMMON_COST_TERMS_H_
