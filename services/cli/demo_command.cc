// demo: the flags; the rest is in demo/.
#include "services/cli/command.h"
#include "services/cli/demo/demo.h"

namespace riskkv::cli {
namespace {

// --text-dir DIR is fit.txt, select.txt and confirm.txt in DIR, where nothing else is said.
void ApplyTextDir(const std::string& dir, DemoOptions& o) {
  if (dir.empty()) return;
  if (o.fit.empty()) o.fit = dir + "/fit.txt";
  if (o.select.empty()) o.select = dir + "/select.txt";
  if (o.confirm.empty()) o.confirm = dir + "/confirm.txt";
}

void AddOptions(CLI::App& command, DemoOptions& o, std::string& text_dir) {
  command.add_option("--model", o.model, "GGUF model file");
  command.add_option("--engine", o.engine, "llama, or fake (no model; for tests)")
      ->check(CLI::IsMember({"llama", "fake"}));
  command.add_option("--predictors", o.predictors,
                     "Folder with predictor sets (default: this model's in the cache folder)");
  command.add_option("--text-dir", text_dir, "Folder with fit.txt, select.txt and confirm.txt");
  command.add_option("--fit", o.fit, "Text to fit predictors on, when there is no set yet");
  command.add_option("--select", o.select, "Text to measure risks and gates on");
  command.add_option("--confirm", o.confirm, "Text for the second look of the gate");
  command.add_option("--text", o.text,
                     "Text the prompts are cut from (default: --confirm, --select, or a built-in passage)");
  command.add_option("--seconds", o.seconds, "Time for the calibration")->capture_default_str();
  command.add_flag("--recalibrate", o.recalibrate, "Calibrate even if there is a set, for this run only");
  command.add_option("--prompt-tokens", o.prompt_tokens, "Length of the prompt, about")
      ->capture_default_str();
  command.add_option("--max-tokens", o.max_tokens, "Output tokens")->capture_default_str();
  command.add_option("--move-after", o.move_after, "Output tokens before the move")->capture_default_str();
  command.add_option("--max-pause-ms", o.max_pause_ms, "Longest pause a move may plan")
      ->capture_default_str();
  o.link_mbit = 100;
  command.add_option("--link-mbit", o.link_mbit, "Speed of the link that every mode moves over once; 0: leave that out")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command.add_option("--cells", o.cells, "KV cells a worker has")->capture_default_str();
  command.add_option("--coordinator-binary", o.coordinator_binary, "Default: beside this program");
  command.add_option("--worker-binary", o.worker_binary, "Default: beside this program");
  command.add_option("--work", o.work, "Folder for logs, ports and the store (default: a temporary one)");
  command.add_flag("--keep", o.keep, "Leave everything running until Ctrl-C, and the folder after it");
}

}  // namespace

void AddDemoCommand(CLI::App& app, Context& context) {
  auto o = std::make_shared<DemoOptions>();
  auto text_dir = std::make_shared<std::string>();
  CLI::App* command =
      AddCommand(app, "demo",
                 "Move a running generation between two workers on this machine, and check what is promised",
                 "riskkv demo --model smollm2.gguf --text-dir build/demo_text", &o->json);
  AddOptions(*command, *o, *text_dir);
  command->callback([o, text_dir, &context] {
    ApplyTextDir(*text_dir, *o);
    if (o->model.empty() && o->engine == "llama") throw CLI::RequiredError("--model");
    context.run = [o, &context] { return RunDemo(*o, context.out, context.err, context.clock); };
  });
}

}  // namespace riskkv::cli
