// The flags of generate and the request they make.
#ifndef RISKKV_SERVICES_CLI_GENERATE_OPTIONS_H_
#define RISKKV_SERVICES_CLI_GENERATE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "riskkv/v1/generation.pb.h"

namespace riskkv::cli {

struct GenerateOptions {
  std::string address, coordinator, prompt, prompt_file, system, attach, grammar_file;
  std::vector<int32_t> tokens;
  std::vector<std::string> stop;
  int64_t from_index = 0;
  int max_tokens = 128, min_tokens = 0, top_k = 0, logprobs = 0;
  float temperature = 0, top_p = 1, min_p = 0, repeat_penalty = 1, frequency_penalty = 0,
        presence_penalty = 0;
  uint64_t seed = 0;
  bool chat = false, ignore_eos = false, detach = false, quiet = false, json = false;
};

void AddGenerateOptions(CLI::App& command, GenerateOptions& options);
// INVALID_ARGUMENT without exactly one input; NOT_FOUND names a file that is not there.
absl::StatusOr<v1::GenerateRequest> BuildGenerateRequest(const GenerateOptions& options);
// The whole file. NOT_FOUND names it.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_GENERATE_OPTIONS_H_
