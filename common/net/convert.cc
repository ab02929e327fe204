#include "common/net/convert.h"

#include "common/base/status.h"

namespace riskkv {
namespace {

v1::Rope ToProto(const RopeParams& rope) {
  v1::Rope out;
  out.set_pairing(static_cast<v1::Rope::Pairing>(rope.pairing));
  out.set_rotary_dim(rope.rotary_dim);
  out.set_freq_base(rope.freq_base);
  out.set_freq_scale(rope.freq_scale);
  for (float f : rope.freq_factors) out.add_freq_factors(f);
  return out;
}

RopeParams FromProto(const v1::Rope& rope) {
  RopeParams out;
  out.pairing = static_cast<kernels::RopePairing>(rope.pairing());
  out.rotary_dim = rope.rotary_dim();
  out.freq_base = rope.freq_base();
  out.freq_scale = rope.freq_scale();
  out.freq_factors.assign(rope.freq_factors().begin(), rope.freq_factors().end());
  return out;
}

}  // namespace

v1::Fingerprint ToProto(const Fingerprint& f) {
  v1::Fingerprint out;
  out.set_protocol_min(f.protocol_min);
  out.set_protocol_max(f.protocol_max);
  out.set_architecture(f.architecture);
  out.set_weights_digest(f.weights_digest);
  out.set_tokenizer_digest(f.tokenizer_digest);
  out.set_n_layer(f.layout.n_layer);
  out.set_n_head_kv(f.layout.n_head_kv);
  out.set_head_dim(f.layout.head_dim);
  *out.mutable_rope() = ToProto(f.layout.rope);
  out.set_cache_type(f.cache_type);
  out.set_layout_version(f.layout_version);
  out.set_digest(FingerprintDigest(f));
  return out;
}

Fingerprint FromProto(const v1::Fingerprint& f) {
  Fingerprint out;
  out.protocol_min = f.protocol_min();
  out.protocol_max = f.protocol_max();
  out.architecture = f.architecture();
  out.weights_digest = f.weights_digest();
  out.tokenizer_digest = f.tokenizer_digest();
  out.layout.n_layer = f.n_layer();
  out.layout.n_head_kv = f.n_head_kv();
  out.layout.head_dim = f.head_dim();
  out.layout.rope = FromProto(f.rope());
  out.cache_type = f.cache_type();
  out.layout_version = f.layout_version();
  return out;
}

v1::SamplingParams ToProto(const SamplingParams& p) {
  v1::SamplingParams out;
  out.set_temperature(p.temperature);
  out.set_top_k(p.top_k);
  out.set_top_p(p.top_p);
  out.set_min_p(p.min_p);
  out.set_seed(p.seed);
  out.set_repeat_penalty(p.repeat_penalty);
  out.set_frequency_penalty(p.frequency_penalty);
  out.set_presence_penalty(p.presence_penalty);
  out.set_penalty_last_n(p.penalty_last_n);
  out.set_grammar(p.grammar);
  out.set_logprobs(p.n_logprobs);
  return out;
}

absl::StatusOr<SamplingParams> FromProto(const v1::SamplingParams& p) {
  SamplingParams out;
  out.temperature = p.temperature();
  out.top_k = p.top_k();
  if (p.has_top_p()) out.top_p = p.top_p();
  out.min_p = p.min_p();
  out.seed = p.seed();
  if (p.has_repeat_penalty()) out.repeat_penalty = p.repeat_penalty();
  out.frequency_penalty = p.frequency_penalty();
  out.presence_penalty = p.presence_penalty();
  if (p.has_penalty_last_n()) out.penalty_last_n = p.penalty_last_n();
  out.grammar = p.grammar();
  out.n_logprobs = p.logprobs();
  RETURN_IF_ERROR(out.Validate());
  return out;
}

v1::TokenRange ToProto(TokenRange range) {
  v1::TokenRange out;
  out.set_begin(range.begin);
  out.set_end(range.end);
  return out;
}

TokenRange FromProto(const v1::TokenRange& range) { return {range.begin(), range.end()}; }

}  // namespace riskkv
