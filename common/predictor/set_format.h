// Names and the inner digest of the predictor-set file (common/README.md), shared by its reader and its
// writer.
#ifndef RISKKV_COMMON_PREDICTOR_SET_FORMAT_H_
#define RISKKV_COMMON_PREDICTOR_SET_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/predictor/safetensors.h"

namespace riskkv {

inline constexpr char kSetFormatName[] = "riskkv-predictor-set";
inline constexpr char kSetFormatVersion[] = "1";
inline constexpr char kSetDescriptionKey[] = "riskkv";
inline constexpr char kContentDigestKey[] = "content_sha256";

std::string WeightTensorName(int group);  // "group.<g>.weight"
std::string BiasTensorName(int group);    // "group.<g>.bias"

// SHA-256 over header and data with the 64 digits of the digest itself taken as zeros: a file under any name
// proves itself whole.
struct ContentDigest {
  std::string stated;
  std::string computed;
};
// DATA_LOSS (CORRUPT_FILE) when the header states none.
absl::StatusOr<ContentDigest> ReadContentDigest(const Safetensors& file);

// Replaces the zeros of a freshly written file by its content digest.
absl::Status StampContentDigest(std::string& bytes);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_SET_FORMAT_H_
