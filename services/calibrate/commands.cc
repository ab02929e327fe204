#include "services/calibrate/commands.h"

#include <memory>

#include "fmt/format.h"
#include "services/calibrate/blas_core.h"
#include "services/calibrate/coded_commands.h"

namespace riskkv::calibrate {
namespace {

void AddEngineFlags(CLI::App& command, EngineOptions& engine) {
  command.add_option("--model", engine.model, "GGUF model file");
  command.add_option("--threads", engine.threads, "engine threads; 0 is one a core");
  command.add_option("--engine", engine.kind, "llama, or fake (a known set for tests)")
      ->check(CLI::IsMember({"llama", "fake"}));
}

void AddHorizonFlag(CLI::App& command, WindowShape& shape) {
  command.add_option("--horizon", shape.horizon, "tokens scored after the move")
      ->check(CLI::Range(1, 1 << 20));
}

// "4,128" sets both ends, "0" both to nothing.
void AddEndsFlag(CLI::App& command, EndsPolicy& ends, const std::string& about) {
  command
      .add_option_function<std::vector<int>>(
          "--ends",
          [&ends](const std::vector<int>& v) {
            ends = {v.at(0), v.size() > 1 ? v[1] : v[0]};
          },
          about)
      ->delimiter(',')
      ->expected(1, 2)
      ->check(CLI::NonNegativeNumber)
      ->default_str(fmt::format("{},{}", ends.first, ends.last));
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, int* exit_code) {
  CLI::App* c = app.add_subcommand(
      "calibrate", "Fit predictors, measure what omitting layers costs, write a predictor set");
  auto o = std::make_shared<CalibrateOptions>();
  AddEngineFlags(*c, o->engine);
  c->add_option("--method", o->method, "paper: omit layers; coded: code the residuals of all")
      ->check(CLI::IsMember({"paper", "coded"}));
  c->add_option("--base", o->base, "coded: a set that gets the codec and keeps its own profiles");
  c->add_option("--windows-sensitivity", o->windows_sensitivity,
                "coded: windows of the fit text on which errors of each layer are weighed; 0 weighs all alike");
  c->add_option("--codec-weights", o->codec_weights,
                "coded: fp16, or auto: 8 bits where every profile is admitted with them too (a set of half the size)")
      ->check(CLI::IsMember({"auto", "fp16"}));
  c->add_option("--fit", o->fit, "text the predictors are fitted on");
  c->add_option("--select", o->select,
                "text the risks and gates are measured on; shares no article with --fit");
  c->add_option("--confirm", o->confirm, "text for the Stable-split gate; shares no article with the others");
  c->add_option("--epsilon", o->epsilons, "budgets, change of NLL in nats per token")
      ->delimiter(',')
      ->default_str("0.002,0.005");
  c->add_option("--out", o->out, "file, or folder (the file is then named by its digest)")->required();
  c->add_option(
      "--seconds", o->seconds,
      "choose the numbers of windows (and a shorter horizon, unless given) to take about this long");
  c->add_option("--history", o->shape.history, "tokens a request has when it moves")->check(CLI::Range(2, 1 << 20));
  AddHorizonFlag(*c, o->shape);
  AddEndsFlag(*c, o->ends, "tokens shipped for all layers, FIRST,LAST; 0 is the paper's policy");
  c->add_option("--windows-fit", o->windows_fit, "windows at most; 0 is all");
  c->add_option("--windows-select", o->windows_select, "windows at most; 0 is all");
  c->add_option("--windows-confirm", o->windows_confirm, "windows at most; 0 is all");
  c->add_option("--dtype", o->dtype, "type of the predictors' weights")
      ->check(CLI::IsMember({"fp32", "fp16"}));
  c->add_option("--layouts,--layout", o->layouts,
                "layer groups: paper, one-anchor, runs-of-three, all-anchors or a JSON file; the first is the set's, "
                "--report compares the others")
      ->delimiter(',')
      ->default_str("paper");
  c->add_option("--seed", o->seed, "of the order of windows and the bootstrap");
  c->add_option("--resamples", o->resamples, "of the bootstrap");
  c->add_option("--report", o->report,
                "folder for report.json, tables as CSV and index.html: rivals, weight types, layouts, gates (more scoring)");
  c->add_option("--coded-set", o->coded_set,
                "a set with a codec, which the report shows beside omission and the rivals");
  c->add_option("--report-history", o->histories,
                "other lengths of history that the report measures what was admitted at, e.g. 128,2048")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 20));
  c->add_option("--trials", o->trials, "resamples of Table II")->check(CLI::Range(1, 1000000));
  c->add_option("--work", o->work_dir,
                "folder that keeps results as they come, for an interrupted run to go on from (12 MB a window of SmolLM2); "
                "with --report REPORT/work while it runs");
  c->add_option("--temp", o->temp_dir, "folder of the temporary file that keeps them otherwise");
  c->add_flag("--json", o->json, "one JSON object on stdout");
  c->footer(
      "Example:\n  riskkv calibrate --model smollm2.gguf --fit fit.txt --select select.txt --confirm "
      "confirm.txt \\\n"
      "    --epsilon 0.002,0.005 --out predictors/ --report report/");
  c->callback([o, c, exit_code] {
    o->horizon_given = c->count("--horizon") > 0;
    RestartWithBetterBlas();
    *exit_code = o->method == "coded" ? RunCalibrateCoded(*o) : RunCalibrate(*o);
  });
}

void AddEvaluateCommand(CLI::App& app, int* exit_code) {
  CLI::App* c = app.add_subcommand("evaluate", "Measure on a text what a profile of a predictor set costs");
  auto o = std::make_shared<EvaluateOptions>();
  AddEngineFlags(*c, o->engine);
  c->add_option("--predictors", o->predictors, "the predictor set's file")->required();
  c->add_option("--text", o->text, "any UTF-8 text; lines \" = Title = \" start articles")->required();
  c->add_option("--profile", o->profile, "default: the gated profile that omits most; coded-step-S: the codec with step S everywhere");
  AddEndsFlag(*c, o->coded_ends, "of coded-step-S: tokens that travel by themselves, FIRST,LAST");
  c->add_flag("--exact-ends", o->exact_ends, "of coded-step-S: those in fp16, not in 8 bits");
  c->add_option("--windows", o->windows, "windows at most; 0 is all");
  c->add_option("--history", o->histories, "tokens a request has when it moves; several, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 20))
      ->default_str("512");
  AddHorizonFlag(*c, o->shape);
  c->add_option("--seed", o->seed, "of the order of windows and the bootstrap");
  c->add_option("--work", o->work_dir, "folder that keeps results for an interrupted run to go on from");
  c->add_option("--temp", o->temp_dir, "folder of the temporary file that keeps them otherwise");
  c->add_flag("--json", o->json, "one JSON object on stdout");
  c->footer(
      "Example:\n  riskkv evaluate --model smollm2.gguf --predictors set.riskkv --text my.txt --profile "
      "risk-0.005 --json");
  c->callback([o, c, exit_code] {
    if (c->count("--ends") + c->count("--exact-ends") > 0 && o->profile.rfind("coded-step-", 0) != 0)
      throw CLI::ValidationError("--ends", "only for --profile coded-step-S; a profile of the set has its own");
    *exit_code = o->profile.rfind("coded-", 0) == 0 ? RunEvaluateCoded(*o) : RunEvaluate(*o);
  });
}

void AddInspectCommand(CLI::App& app, int* exit_code) {
  CLI::App* c = app.add_subcommand("inspect", "Verify a predictor set and show what is in it");
  auto o = std::make_shared<InspectOptions>();
  c->add_option("set", o->predictors, "the predictor set's file")->required();
  c->add_flag("--json", o->json, "one JSON object on stdout");
  c->footer("Example:\n  riskkv inspect predictors/0f3a...c2.riskkv");
  c->callback([o, exit_code] { *exit_code = RunInspect(*o); });
}

}  // namespace riskkv::calibrate
