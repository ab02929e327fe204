// bench: speeds, measured side by side in one run.
#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/quality/scorer.h"
#include "common/quality/windows.h"
#include "fmt/format.h"
#include "services/bench/codec_bench.h"
#include "services/calibrate/engine_factory.h"
#include "services/cli/bench_pause.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"

namespace riskkv::cli {
namespace {

struct BenchCodecFlags {
  std::string predictors, model, text;
  bench::CodecBenchOptions options;
  bool json = false;
};

// The model's own cells of the first window of a text, and its tokens.
struct RealCells {
  std::unique_ptr<Engine> engine;
  std::vector<Token> tokens;
  KvBlock cells;
};

absl::StatusOr<RealCells> PrefillText(const BenchCodecFlags& f, const PredictorSet& set) {
  RealCells out;
  calibrate::EngineOptions engine;
  engine.model = f.model;
  engine.threads = 1;  // as the codec
  ASSIGN_OR_RETURN(out.engine, calibrate::MakeEngine(engine, f.options.tokens + 64));
  RETURN_IF_ERROR(set.CheckModel(out.engine->facts().fingerprint));
  ASSIGN_OR_RETURN(const TextFile text, ReadArticles(f.text));
  ASSIGN_OR_RETURN(const WindowSet windows,
                   CutWindows(*out.engine, text, {static_cast<int>(f.options.tokens), 0}, f.options.seed, 1));
  out.tokens = windows.windows.front().tokens;
  WindowScorer scorer(*out.engine);
  ASSIGN_OR_RETURN(out.cells, scorer.Prefill(out.tokens));
  return out;
}

absl::StatusOr<bench::CodecBenchResult> RunBench(const BenchCodecFlags& f, const Clock& clock) {
  if (f.model.empty() != f.text.empty()) return absl::InvalidArgumentError("--model and --text go together");
  ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(f.predictors));
  ASSIGN_OR_RETURN(const auto codec, OpenCodec(*set));
  RealCells real;
  if (f.model.empty()) {
    ASSIGN_OR_RETURN(real.cells, bench::DrawCells(*codec, f.options));
  } else {
    ASSIGN_OR_RETURN(real, PrefillText(f, *set));
  }
  return bench::BenchCodec(*codec, real.cells, clock, f.options, real.engine.get(), real.tokens);
}

int RunBenchCodec(Context& context, const BenchCodecFlags& f) {
  const auto result = RunBench(f, context.clock);
  if (!result.ok()) return ReportFailure(context, result.status(), f.json);
  const nlohmann::json j = bench::ToJson(*result);
  if (f.json) {
    context.out << j.dump(2) << "\n";
    return kExitOk;
  }
  for (const char* side : {"encode", "decode"}) {
    context.out << fmt::format("{}  {:8.0f} tokens/s  {:7.1f} MB/s of cache  {:.2f} of the products' limit\n", side,
                               j[side]["tokens_per_second"].get<double>(),
                               j[side]["cache_megabytes_per_second"].get<double>(),
                               j[side]["share_of_product_limit"].get<double>());
  }
  context.out << fmt::format("{:.2f}x fewer bytes, {:.3f} of the ideal static code length\n",
                             j["times_fewer"].get<double>(), j["size_over_ideal_static_length"].get<double>());
  if (j.contains("prefill")) {
    context.out << fmt::format("encode and decode take {:.3f} of the prefill of the same tokens, decode {:.3f}\n",
                               j["prefill"]["encode_and_decode_over_prefill"].get<double>(),
                               j["prefill"]["decode_over_prefill"].get<double>());
  }
  return kExitOk;
}

}  // namespace

void AddBenchCommand(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("bench", "Measure speeds, side by side in one run");
  command->require_subcommand(1);
  auto f = std::make_shared<BenchCodecFlags>();
  CLI::App* codec = AddCommand(*command, "codec", "Coding and decoding a cache, on one thread",
                               "riskkv bench codec --predictors set.riskkv --model smollm2.gguf --text text.txt --json",
                               &f->json);
  codec->add_option("--predictors", f->predictors, "A set with a codec")->required();
  codec->add_option("--model", f->model, "GGUF model: real cells, and its prefill beside the codec");
  codec->add_option("--text", f->text, "Text for the model's cells");
  codec->add_option("--tokens", f->options.tokens, "Tokens of the cache")->check(CLI::Range(1, 1 << 16))->capture_default_str();
  codec->add_option("--step", f->options.step, "Quantiser step")->check(CLI::PositiveNumber)->capture_default_str();
  codec->add_option("--repetitions", f->options.repetitions, "Turns; medians are shown")->check(CLI::Range(1, 1000))->capture_default_str();
  codec->callback([f, &context] { context.run = [f, &context] { return RunBenchCodec(context, *f); }; });
  AddBenchPauseCommand(*command, context);
}

}  // namespace riskkv::cli
