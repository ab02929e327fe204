#include "services/cli/generate_options.h"

#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::cli {
namespace {

void AddInput(CLI::App& command, GenerateOptions& o) {
  command.add_option("--prompt", o.prompt, "Text, taken as it is");
  command.add_option("--prompt-file", o.prompt_file, "The same from a file");
  command.add_option("--tokens", o.tokens, "Token ids instead of text, begin-of-text included if wanted")
      ->delimiter(',');
  command.add_flag("--chat", o.chat, "Put the prompt through the model's chat template");
  command.add_option("--system", o.system, "System message of the chat");
  command.add_option("--attach", o.attach, "Do not start a request: join this one");
  command.add_option("--from", o.from_index, "With --attach, the first output index wanted");
}

void AddSampling(CLI::App& command, GenerateOptions& o) {
  command.add_option("--max-tokens", o.max_tokens, "Output tokens at most")->capture_default_str();
  command.add_option("--min-tokens", o.min_tokens, "Output tokens at least");
  command.add_option("--temperature", o.temperature, "0 is greedy")->capture_default_str();
  command.add_option("--top-k", o.top_k, "0: off");
  command.add_option("--top-p", o.top_p, "1: off");
  command.add_option("--min-p", o.min_p, "0: off");
  command.add_option("--seed", o.seed,
                     "Of the draws; the same seed draws the same wherever the request runs");
  command.add_option("--repeat-penalty", o.repeat_penalty, "1: off");
  command.add_option("--frequency-penalty", o.frequency_penalty, "0: off");
  command.add_option("--presence-penalty", o.presence_penalty, "0: off");
  command.add_option("--grammar-file", o.grammar_file, "GBNF the output must follow");
  command.add_option("--logprobs", o.logprobs,
                     "Alternatives reported beside each token, up to 20 (with --json)");
  command.add_option("--stop", o.stop, "Text that ends the generation; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", o.ignore_eos, "Go on after the model's end of text");
}

v1::SamplingParams Sampling(const GenerateOptions& o) {
  v1::SamplingParams s;
  s.set_temperature(o.temperature);
  s.set_top_k(o.top_k);
  s.set_top_p(o.top_p);
  s.set_min_p(o.min_p);
  s.set_seed(o.seed);
  s.set_repeat_penalty(o.repeat_penalty);
  s.set_frequency_penalty(o.frequency_penalty);
  s.set_presence_penalty(o.presence_penalty);
  s.set_logprobs(o.logprobs);
  return s;
}

}  // namespace

void AddGenerateOptions(CLI::App& command, GenerateOptions& o) {
  command.add_option("--address", o.address, "The worker's host:port");
  command
      .add_option("--coordinator", o.coordinator,
                  "The coordinator's host:port: finds a worker, and the request when its worker is lost")
      ->envname("RISKKV_COORDINATOR");
  AddInput(command, o);
  AddSampling(command, o);
  command.add_flag("--detach", o.detach,
                   "Print the request's id and leave it running (30 s until somebody attaches)");
  command.add_flag("--quiet", o.quiet, "No notes about moves on stderr");
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return MakeError(absl::StatusCode::kNotFound, "BAD_ARGUMENT", fmt::format("cannot read {}", path));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

absl::StatusOr<v1::GenerateRequest> BuildGenerateRequest(const GenerateOptions& o) {
  int inputs = !o.prompt.empty() + !o.prompt_file.empty() + !o.tokens.empty();
  if (inputs != 1) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
        fmt::format("one of --prompt, --prompt-file, --tokens, --attach is needed, {} are given", inputs));
  }
  v1::GenerateRequest request;
  std::string text = o.prompt;
  if (!o.prompt_file.empty()) {
    ASSIGN_OR_RETURN(text, ReadTextFile(o.prompt_file));
  }
  if (!o.tokens.empty()) {
    for (int32_t token : o.tokens) request.mutable_tokens()->add_ids(token);
  } else if (o.chat) {
    request.mutable_chat()->set_system(o.system);
    request.mutable_chat()->set_user(text);
  } else {
    request.set_prompt(text);
  }
  *request.mutable_sampling() = Sampling(o);
  if (!o.grammar_file.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_sampling()->mutable_grammar(), ReadTextFile(o.grammar_file));
  }
  v1::StopParams* stop = request.mutable_stop();
  stop->set_max_tokens(o.max_tokens);
  stop->set_min_tokens(o.min_tokens);
  stop->set_ignore_eos(o.ignore_eos);
  for (const std::string& s : o.stop) stop->add_stop(s);
  request.set_detached(o.detach);
  return request;
}

}  // namespace riskkv::cli
