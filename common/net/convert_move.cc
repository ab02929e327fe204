#include "common/net/convert_move.h"

namespace riskkv {

Fence FromProto(const v1::Fence& f) {
  return {.migration_id = f.migration_id(),
          .attempt = f.attempt(),
          .epoch = f.epoch(),
          .request_id = f.request_id(),
          .source_boot_id = f.source_boot_id(),
          .destination_boot_id = f.destination_boot_id(),
          .leader_term = f.leader_term()};
}

v1::Fence ToProto(const Fence& f) {
  v1::Fence out;
  out.set_migration_id(f.migration_id);
  out.set_attempt(f.attempt);
  out.set_epoch(f.epoch);
  out.set_request_id(f.request_id);
  out.set_source_boot_id(f.source_boot_id);
  out.set_destination_boot_id(f.destination_boot_id);
  out.set_leader_term(f.leader_term);
  return out;
}

v1::RoundDone ToProto(const RoundDone& round) {
  v1::RoundDone out;
  out.set_round(round.round);
  out.set_frontier(round.frontier);
  out.set_n_tokens(round.n_tokens);
  out.set_bytes(round.bytes);
  out.set_seconds(round.seconds);
  return out;
}

v1::PausedAt ToProto(const PausedAt& paused) {
  v1::PausedAt out;
  out.set_n_tokens(paused.n_tokens);
  out.set_remaining_cells(paused.remaining_cells);
  out.set_predicted_pause_ms(paused.predicted_pause_ms);
  return out;
}

v1::MoveStats ToProto(const MoveStats& s) {
  v1::MoveStats out;
  out.set_bytes_sent(s.bytes_sent);
  out.set_bytes_full(s.bytes_full);
  out.set_tokens_at_pause(s.tokens_at_pause);
  out.set_output_tokens(s.output_tokens);
  out.set_precopy_ms(s.precopy_ms);
  out.set_final_ms(s.final_ms);
  out.set_rebuild_ms(s.rebuild_ms);
  out.set_probe_error(s.probe_error);
  out.set_tokens_rebuilt(s.tokens_rebuilt);
  out.set_tokens_exact(s.tokens_exact);
  out.set_rounds(s.rounds);
  out.mutable_omitted_layers()->Add(s.omitted_layers.begin(), s.omitted_layers.end());
  out.set_transfer_seconds(s.transfer_seconds);
  out.set_replay_ms(s.replay_ms);
  out.set_encode_ms(s.encode_ms);
  out.set_decode_ms(s.decode_ms);
  out.set_tokens_coded(s.tokens_coded);
  return out;
}

MoveStats FromProto(const v1::MoveStats& s) {
  return {.bytes_sent = s.bytes_sent(),
          .bytes_full = s.bytes_full(),
          .tokens_at_pause = s.tokens_at_pause(),
          .output_tokens = s.output_tokens(),
          .precopy_ms = s.precopy_ms(),
          .final_ms = s.final_ms(),
          .rebuild_ms = s.rebuild_ms(),
          .probe_error = s.probe_error(),
          .tokens_rebuilt = s.tokens_rebuilt(),
          .tokens_exact = s.tokens_exact(),
          .rounds = s.rounds(),
          .omitted_layers = {s.omitted_layers().begin(), s.omitted_layers().end()},
          .transfer_seconds = s.transfer_seconds(),
          .replay_ms = s.replay_ms(),
          .encode_ms = s.encode_ms(),
          .decode_ms = s.decode_ms(),
          .tokens_coded = s.tokens_coded()};
}

RoundDone FromProto(const v1::RoundDone& r) {
  return {.round = r.round(), .frontier = r.frontier(), .n_tokens = r.n_tokens(), .bytes = r.bytes(), .seconds = r.seconds()};
}

PausedAt FromProto(const v1::PausedAt& p) {
  return {.n_tokens = p.n_tokens(),
          .remaining_cells = p.remaining_cells(),
          .predicted_pause_ms = p.predicted_pause_ms()};
}

}  // namespace riskkv
