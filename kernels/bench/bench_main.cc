// riskkv-kernels-bench: how fast a backend rebuilds and transforms, as JSON on stdout.
//   riskkv-kernels-bench [--backend cpu|cuda|auto] [--threads N] [--tokens N] [--seconds S]
// Shares are against products of the same shapes alone, measured in the same run on the same number of tiles.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/bench/bench_tools.h"
#include "kernels/bench/codec_bench.h"
#include "kernels/cpu/gemm.h"
#include "kernels/fp16.h"

namespace {

using namespace riskkv::kernels;
using namespace riskkv::kernels::bench;

struct Options {
  BackendChoice backend = BackendChoice::kAuto;
  int threads = 1;
  int tokens = 1024;
  double seconds = 0.5;  // a measurement
};

constexpr Model kModels[] = {{"Qwen2.5-0.5B", 2, 64, RopePairing::kHalves},
                             {"SmolLM2-135M", 3, 64, RopePairing::kNeighbours},
                             {"TinyLlama-1.1B", 4, 64, RopePairing::kNeighbours},
                             {"Llama-3-8B", 8, 128, RopePairing::kNeighbours}};

// One paper group (four anchors, two targets) over `tokens` rows.
class Bench {
 public:
  Bench(const Model& model, const Options& options)
      : model_(model), options_(options), kv_(model.n_head_kv * model.head_dim), d_in_(8 * kv_), d_out_(4 * kv_) {
    b_ = Normal(static_cast<std::size_t>(d_in_) * d_out_, 0.02f);
    bias_ = Normal(d_out_, 0.5f);
    const std::vector<float> row = Normal(static_cast<std::size_t>(options.tokens) * kv_, 1.0f);
    anchor_.resize(row.size());
    FloatToHalf(row.data(), anchor_.data(), row.size());
    targets_.resize(4, std::vector<uint16_t>(row.size()));
    for (int t = 0; t < options.tokens; ++t) positions_.push_back(t);
  }

  double flops() const { return 2.0 * options_.tokens * d_in_ * d_out_; }

  Status RebuildSeconds(Backend& backend, double* seconds) {
    PredictorSetView view;
    view.n_head_kv = model_.n_head_kv;
    view.head_dim = model_.head_dim;
    view.rope.pairing = model_.pairing;
    view.rope.rotary_dim = model_.head_dim;
    GroupWeights group;
    group.anchors = {0, 1, 4, 5};
    group.targets = {2, 3};
    group.b = b_.data();
    group.bias = bias_.data();
    view.groups.push_back(group);
    SetHandle handle = 0;
    if (Status status = backend.Upload(view, &handle); !status.ok()) return status;
    const std::vector<RebuildJob> jobs = {Job(handle)};
    Status status;
    *seconds = BestSeconds(options_.seconds, [&] {
      if (status.ok()) status = backend.Rebuild(jobs);
    });
    const Status released = backend.Release(handle);
    return status.ok() ? released : status;
  }

  // The products of the same tiles, nothing else, on one thread.
  double ProductSeconds(GemmKind kind) {
    const PackedB packed = PackB(kind, b_.data(), d_in_, d_out_);
    const std::vector<float> x = Normal(static_cast<std::size_t>(kTileTokens) * XStride(d_in_), 1.0f);
    AlignedBuffer z(static_cast<std::size_t>(kTileTokens) * d_out_);
    TileRows rows;
    rows.set();
    return BestSeconds(options_.seconds, [&] {
      for (int t = 0; t < options_.tokens; t += kTileTokens) GemmTile(packed, x.data(), rows, z.data());
    });
  }

  Status Print(Backend& backend, bool last) {
    double seconds = 0;
    if (Status status = RebuildSeconds(backend, &seconds); !status.ok()) return status;
    std::printf("    {\"model\": \"%s\", \"kv\": %d, \"d_in\": %d, \"d_out\": %d, \"tokens\": %d,\n"
                "     \"tokens_per_s\": %.0f, \"gflops\": %.1f, \"us_per_token\": %.3f",
                model_.name, kv_, d_in_, d_out_, options_.tokens, options_.tokens / seconds, flops() / seconds / 1e9,
                seconds / options_.tokens * 1e6);
    for (const GemmKind kind : AvailableGemms()) {
      if (backend.info().backend != "cpu" || kind == GemmKind::kPlain) continue;
      const double product = ProductSeconds(kind);
      std::printf(",\n     \"product %s\": {\"gflops\": %.1f, \"share\": %.3f}", GemmName(kind).c_str(),
                  flops() / product / 1e9, product / seconds);
    }
    std::printf("}%s\n", last ? "" : ",");
    std::fflush(stdout);
    return Status();
  }

 private:
  RebuildJob Job(SetHandle handle) {
    RebuildJob job;
    job.set = handle;
    job.n_tokens = options_.tokens;
    job.positions = positions_.data();
    job.anchor_k.assign(4, anchor_.data());
    job.anchor_v.assign(4, anchor_.data());
    job.target_k = {targets_[0].data(), targets_[1].data()};
    job.target_v = {targets_[2].data(), targets_[3].data()};
    return job;
  }

  const Model& model_;
  const Options& options_;
  int kv_, d_in_, d_out_;
  std::vector<float> b_, bias_;
  std::vector<int32_t> positions_;
  std::vector<uint16_t> anchor_;
  std::vector<std::vector<uint16_t>> targets_;
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--backend" && (value == "cpu" || value == "cuda" || value == "auto")) {
      options->backend = value == "cpu"    ? BackendChoice::kCpu
                         : value == "cuda" ? BackendChoice::kCuda
                                           : BackendChoice::kAuto;
    } else if (name == "--threads") {
      options->threads = std::atoi(value.c_str());
    } else if (name == "--tokens") {
      options->tokens = std::atoi(value.c_str());
    } else if (name == "--seconds") {
      options->seconds = std::atof(value.c_str());
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options->tokens > 0;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

int Run(const Options& options) {
  std::unique_ptr<Backend> backend;
  Status status = CreateBackend(options.backend, options.threads, &backend);
  if (status.ok()) {
    const DeviceInfo& info = backend->info();
    std::printf("{\"backend\": \"%s\", \"device\": \"%s\", \"note\": \"%s\", \"threads\": %d,\n  \"groups\": [\n",
                info.backend.c_str(), Escaped(info.device).c_str(), Escaped(info.note).c_str(), options.threads);
    const Model* last = std::end(kModels) - 1;
    for (const Model& model : kModels) {
      if (status.ok()) status = Bench(model, options).Print(*backend, &model == last);
    }
    std::printf("  ],\n  \"codecs\": [\n");
    for (const Model& model : kModels) {
      if (status.ok()) status = PrintCodec(*backend, model, options.tokens, options.seconds, &model == last);
    }
    std::printf("  ]}\n");
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "riskkv-kernels-bench: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: %s [--backend cpu|cuda|auto] [--threads N] [--tokens N] [--seconds S]\n", argv[0]);
    return 2;
  }
  return Run(options);
}
