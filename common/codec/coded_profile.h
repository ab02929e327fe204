// Coded profiles: steps with the budget they were accepted for, and a whole cache under one.
#ifndef RISKKV_COMMON_CODEC_CODED_PROFILE_H_
#define RISKKV_COMMON_CODEC_CODED_PROFILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/block_codec.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/profile.h"

namespace riskkv {

struct CodedProfile {
  std::string name;           // "coded-0.002"
  double epsilon = 0;         // budget in nats a token; 0 for ungated ones
  std::vector<float> steps;   // by unit of the codec's plan
  EndsPolicy ends{4, 36};     // tokens that travel for all layers
  bool int8_ends = true;      // in 8 bits; false: fp16, bit for bit
  bool gated = false;
  std::string gate = "none";  // "upper90", "stable-split", "none"
  RiskStats select, confirm;
  double times_fewer = 0;     // bytes of the exact cache over all bytes sent, on the selection windows
};

// "coded-0.002" for 0.002.
std::string CodedProfileName(double epsilon);
inline bool IsCodedProfileName(std::string_view name) { return name.rfind("coded-", 0) == 0; }

std::string CodedProfilesToJson(const std::vector<CodedProfile>& profiles);

// Profiles of a set's codec; none when it has no codec. DATA_LOSS (CORRUPT_FILE) naming what is wrong.
absl::StatusOr<std::vector<CodedProfile>> ReadCodedProfiles(const PredictorSet& set);
// NOT_FOUND (UNKNOWN_PROFILE) names it and lists those there are.
absl::StatusOr<CodedProfile> FindCodedProfile(const PredictorSet& set, std::string_view name);

// What a destination has after a coded move, and every byte that made it so: ends, blocks, their headers.
struct CodedCache {
  KvBlock cells;
  int64_t bytes = 0;
};
// `exact`: all layers, from position 0. Blocks of kCodedBlockTokens between the ends.
absl::StatusOr<CodedCache> CodeCache(const BlockCodec& codec, const CodedProfile& profile, const KvBlock& exact,
                                     CodecScratch& scratch);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODED_PROFILE_H_
