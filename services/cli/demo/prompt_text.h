// Prompts of real prose for the demonstration.
#ifndef RISKKV_SERVICES_CLI_DEMO_PROMPT_TEXT_H_
#define RISKKV_SERVICES_CLI_DEMO_PROMPT_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace riskkv::cli {

// About `chars` characters of running text: whole paragraphs from the `part`-th of `parts` equal parts of the
// text on, no headings, cut at the end of a word.
std::string CutPrompt(const std::string& text, int part, int parts, size_t chars);

// A passage for when no text is given.
const std::string& BuiltInText();

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_PROMPT_TEXT_H_
