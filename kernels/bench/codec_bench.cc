#include "kernels/bench/codec_bench.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "kernels/codec_backend.h"
#include "kernels/fp16.h"

namespace riskkv::kernels::bench {
namespace {

constexpr int kLayers = 6;

// Numbers that cost what a calibrated codec's do; what they mean does not matter here.
class CodecBench {
 public:
  CodecBench(Backend& backend, const Model& model, int tokens)
      : backend_(backend.codec()), kv_(model.n_head_kv * model.head_dim), tokens_(tokens) {
    const int width = 4 * kv_;
    rotation_ = Normal(static_cast<std::size_t>(width) * width, 0.02f);
    predictor_ = Normal(2 * static_cast<std::size_t>(width) * width, 0.02f);
    mean_ = Normal(2 * kLayers * static_cast<std::size_t>(kv_), 1.0f);
    scale_.assign(2 * kLayers, 1.0f);
    view_.n_layer = kLayers;
    view_.n_head_kv = model.n_head_kv;
    view_.head_dim = model.head_dim;
    view_.rope.pairing = model.pairing;
    view_.rope.rotary_dim = model.head_dim;
    view_.mean = mean_.data();
    view_.scale = scale_.data();
    view_.dead_zone = 0.6f;
    view_.largest_level = 1 << 20;
    AddUnit(0, {});
    AddUnit(4, {0});
    AddUnit(2, {0, 1});
    const std::vector<float> rows = Normal(static_cast<std::size_t>(2 * kLayers) * kTileTokens * kv_, 1.0f);
    cells_.resize(rows.size());
    FloatToHalf(rows.data(), cells_.data(), rows.size());
    out_.resize(cells_.size());
    for (auto& unit : levels_) unit.resize(static_cast<std::size_t>(width) * kTileTokens);
  }

  Status Upload() { return backend_.Upload(view_, &handle_); }
  Status Release() { return backend_.Release(handle_); }
  double flops() const { return 2.0 * tokens_ * 16 * kv_ * kv_ * 6; }

  double QuantiseSeconds(double budget, Status* status) {
    int32_t* levels[] = {levels_[0].data(), levels_[1].data(), levels_[2].data()};
    return Time(budget, status, [&](const CodecBlock& b) { return backend_.Quantise(b, cells_.data(), levels); });
  }
  double ReconstructSeconds(double budget, Status* status) {
    const int32_t* levels[] = {levels_[0].data(), levels_[1].data(), levels_[2].data()};
    return Time(budget, status, [&](const CodecBlock& b) { return backend_.Reconstruct(b, levels, out_.data()); });
  }
  double ProductSeconds(double budget, Status* status) {
    return Time(budget, status, [&](const CodecBlock& b) { return backend_.Multiply(handle_, b.first, b.n_tokens); });
  }

 private:
  void AddUnit(int layer, std::vector<int> conditions) {
    CodecUnit unit;
    unit.planes = {{layer, 0}, {layer, 1}, {layer + 1, 0}, {layer + 1, 1}};
    unit.conditions = std::move(conditions);
    unit.rotation = rotation_.data();
    unit.predictor = predictor_.data();
    view_.units.push_back(std::move(unit));
  }

  template <typename Work>
  double Time(double budget, Status* status, const Work& work) {
    const float steps[] = {0.25f, 0.25f, 0.25f};
    return BestSeconds(budget, [&] {
      for (int at = 0; at < tokens_ && status->ok(); at += kTileTokens)
        *status = work({handle_, at, std::min(kTileTokens, tokens_ - at), 3, steps});
    });
  }

  CodecBackend& backend_;
  int kv_, tokens_;
  std::vector<float> rotation_, predictor_, mean_, scale_;
  CodecView view_;
  CodecHandle handle_ = 0;
  std::vector<uint16_t> cells_, out_;
  std::vector<int32_t> levels_[3];
};

}  // namespace

Status PrintCodec(Backend& backend, const Model& model, int tokens, double seconds, bool last) {
  CodecBench bench(backend, model, tokens);
  Status status = bench.Upload();
  if (!status.ok()) return status;
  const double quantise = bench.QuantiseSeconds(seconds, &status);
  const double reconstruct = bench.ReconstructSeconds(seconds, &status);
  const double products = bench.ProductSeconds(seconds, &status);
  const Status released = bench.Release();
  if (!status.ok()) return status;
  std::printf("    {\"model\": \"%s\", \"layers\": %d, \"tokens\": %d, \"product_gflops\": %.1f,\n"
              "     \"quantise\": {\"tokens_per_s\": %.0f, \"share_of_products\": %.3f},\n"
              "     \"reconstruct\": {\"tokens_per_s\": %.0f, \"share_of_products\": %.3f}}%s\n",
              model.name, kLayers, tokens, bench.flops() / products / 1e9, tokens / quantise, products / quantise,
              tokens / reconstruct, products / reconstruct, last ? "" : ",");
  std::fflush(stdout);
  return released;
}

}  // namespace riskkv::kernels::bench
