#include "services/bench/codec_bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::bench {
namespace {

double Median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// One turn: every stage over all blocks, and the products alone.
class Turn {
 public:
  Turn(const BlockCodec& codec, const CodedPolicy& policy, const std::vector<KvBlock>& blocks, const Clock& clock,
       CodecScratch& scratch)
      : codec_(codec), policy_(policy), blocks_(blocks), clock_(clock), scratch_(scratch) {}

  absl::Status Run(CodecBenchResult& r) {
    for (const KvBlock& block : blocks_) {
      absl::StatusOr<QuantisedBlock> levels, received;
      absl::StatusOr<std::string> bytes;
      absl::StatusOr<KvBlock> cells;
      r.quantise += Timed([&] { levels = codec_.Quantise(policy_, block, scratch_); });
      RETURN_IF_ERROR(levels.status());
      r.pack += Timed([&] { bytes = codec_.Pack(policy_, *levels); });
      RETURN_IF_ERROR(bytes.status());
      r.unpack += Timed([&] { received = codec_.Unpack(policy_, *bytes); });
      RETURN_IF_ERROR(received.status());
      if (received->units != levels->units) return absl::InternalError("the levels did not come back");
      r.reconstruct += Timed([&] { cells = codec_.Reconstruct(policy_, *received, scratch_); });
      RETURN_IF_ERROR(cells.status());
      absl::Status multiplied;
      r.products += Timed([&] { multiplied = codec_.OnlyProducts(block.range); });
      RETURN_IF_ERROR(multiplied);
      r.coded_bytes += static_cast<int64_t>(bytes->size());
      r.ideal_bits += IdealBits(codec_, policy_, *levels);
    }
    return absl::OkStatus();
  }

  double Timed(const std::function<void()>& work) const {
    const absl::Duration start = clock_.Monotonic();
    work();
    return absl::ToDoubleSeconds(clock_.Monotonic() - start);
  }

 private:
  const BlockCodec& codec_;
  const CodedPolicy& policy_;
  const std::vector<KvBlock>& blocks_;
  const Clock& clock_;
  CodecScratch& scratch_;
};

absl::StatusOr<double> PrefillSeconds(Engine& engine, const std::vector<Token>& tokens, const Clock& clock) {
  ASSIGN_OR_RETURN(const SeqId id, engine.OpenSequence());
  const absl::Duration start = clock.Monotonic();
  absl::Status status;
  const std::size_t batch = static_cast<std::size_t>(engine.limits().max_batch);
  for (std::size_t at = 0; at < tokens.size() && status.ok(); at += batch) {
    StepItem item;
    item.seq = id;
    item.n_past = static_cast<int64_t>(at);
    item.tokens = std::span<const Token>(tokens).subspan(at, std::min(batch, tokens.size() - at));
    status = engine.Step({&item, 1}).status();
  }
  const double seconds = absl::ToDoubleSeconds(clock.Monotonic() - start);
  engine.CloseSequence(id);
  RETURN_IF_ERROR(status);
  return seconds;
}

absl::StatusOr<std::vector<KvBlock>> Blocks(const KvBlock& cells, int64_t tokens) {
  std::vector<KvBlock> blocks;
  const int64_t end = std::min(cells.range.end, cells.range.begin + tokens);
  for (int64_t at = cells.range.begin; at < end; at += kCodedBlockTokens) {
    ASSIGN_OR_RETURN(KvBlock block, Slice(cells, {at, std::min(end, at + kCodedBlockTokens)}, cells.layers));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace

absl::StatusOr<CodecBenchResult> BenchCodec(const BlockCodec& codec, const KvBlock& cells, const Clock& clock,
                                            const CodecBenchOptions& options, Engine* engine,
                                            const std::vector<Token>& prefill) {
  ASSIGN_OR_RETURN(const CodedPolicy policy, codec.MakePolicy(options.step));
  ASSIGN_OR_RETURN(const std::vector<KvBlock> blocks, Blocks(cells, options.tokens));
  CodecScratch scratch;
  std::vector<CodecBenchResult> turns;
  // The first turn warms the caches and the scratch and does not count.
  for (int i = 0; i <= options.repetitions; ++i) {
    CodecBenchResult r;
    RETURN_IF_ERROR(Turn(codec, policy, blocks, clock, scratch).Run(r));
    if (engine != nullptr) {
      ASSIGN_OR_RETURN(r.prefill, PrefillSeconds(*engine, prefill, clock));
    }
    if (i > 0) turns.push_back(r);
  }
  auto median = [&turns](double CodecBenchResult::*stage) {
    std::vector<double> v;
    for (const CodecBenchResult& t : turns) v.push_back(t.*stage);
    return Median(std::move(v));
  };
  CodecBenchResult out = turns.front();
  for (const KvBlock& b : blocks) {
    out.tokens += b.range.size();
    out.cache_bytes += b.bytes();
  }
  for (auto stage : {&CodecBenchResult::quantise, &CodecBenchResult::pack, &CodecBenchResult::unpack,
                     &CodecBenchResult::reconstruct, &CodecBenchResult::products, &CodecBenchResult::prefill})
    out.*stage = median(stage);
  out.gigaflops = static_cast<double>(codec.ProductFlopsPerToken() * out.tokens) / out.products / 1e9;
  return out;
}

absl::StatusOr<KvBlock> DrawCells(const BlockCodec& codec, const CodecBenchOptions& options) {
  ASSIGN_OR_RETURN(const CodedPolicy policy, codec.MakePolicy(options.step));
  std::mt19937_64 random(options.seed);
  std::exponential_distribution<double> exponential;
  KvBlock cells = KvBlock::Make(codec.layout(), {0, options.tokens}, AllLayers(codec.layout()));
  CodecScratch scratch;
  for (int64_t at = 0; at < options.tokens; at += kCodedBlockTokens) {
    QuantisedBlock levels;
    levels.range = {at, std::min(options.tokens, at + kCodedBlockTokens)};
    for (const UnitWeights& unit : codec.weights().units) {
      std::vector<int32_t> q;
      for (float v : unit.variance) {
        const double scale = std::sqrt(v / 2) / options.step;
        for (int64_t t = 0; t < levels.range.size(); ++t) {
          const int32_t level = static_cast<int32_t>(exponential(random) * scale + 1 - kDeadZone);
          q.push_back(random() % 2 == 0 ? level : -level);
        }
      }
      levels.units.push_back(std::move(q));
    }
    ASSIGN_OR_RETURN(const KvBlock block, codec.Reconstruct(policy, levels, scratch));
    const std::size_t n = static_cast<std::size_t>(block.range.size()) * block.kv;
    for (int l = 0; l < codec.layout().n_layer; ++l) {
      std::copy_n(block.k(l), n, cells.k(l) + static_cast<std::size_t>(at) * cells.kv);
      std::copy_n(block.v(l), n, cells.v(l) + static_cast<std::size_t>(at) * cells.kv);
    }
  }
  return cells;
}

nlohmann::json ToJson(const CodecBenchResult& r) {
  const double encode = r.quantise + r.pack, decode = r.unpack + r.reconstruct;
  const double tokens = static_cast<double>(r.tokens), megabytes = static_cast<double>(r.cache_bytes) / 1e6;
  nlohmann::json j = {
      {"tokens", r.tokens},
      {"cache_bytes", r.cache_bytes},
      {"coded_bytes", r.coded_bytes},
      {"times_fewer", static_cast<double>(r.cache_bytes) / static_cast<double>(r.coded_bytes)},
      {"bits_per_element", 16.0 * static_cast<double>(r.coded_bytes) / static_cast<double>(r.cache_bytes)},
      {"size_over_ideal_static_length", 8.0 * static_cast<double>(r.coded_bytes) / r.ideal_bits},
      {"encode", {{"seconds", encode}, {"tokens_per_second", tokens / encode}, {"cache_megabytes_per_second", megabytes / encode},
                  {"transform_seconds", r.quantise}, {"entropy_seconds", r.pack}, {"share_of_product_limit", r.products / encode}}},
      {"decode", {{"seconds", decode}, {"tokens_per_second", tokens / decode}, {"cache_megabytes_per_second", megabytes / decode},
                  {"transform_seconds", r.reconstruct}, {"entropy_seconds", r.unpack}, {"share_of_product_limit", r.products / decode}}},
      {"products", {{"seconds", r.products}, {"gigaflops", r.gigaflops}}}};
  if (r.prefill > 0) {
    j["prefill"] = {{"seconds", r.prefill},
                    {"encode_and_decode_over_prefill", (encode + decode) / r.prefill},
                    {"decode_over_prefill", decode / r.prefill}};
  }
  return j;
}

}  // namespace riskkv::bench
