#include <cmath>

#include "common/base/clock.h"
#include "common/cost/corrections.h"
#include "common/cost/links.h"
#include "common/cost/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv::cost {
namespace {

using ::testing::HasSubstr;

// SmolLM2-135M on a 1 Gbit/s link, the numbers of environment.md: 30 layers, kv 192, 7 groups of two targets.
Inputs Smol(int64_t tokens = 1000) {
  Inputs in;
  in.source = "A";
  in.destination = "B";
  in.shape = {.n_layer = 30, .kv = 192};
  in.request = {.n_tokens = tokens + 1, .n_kv = tokens, .tokens_left = 200};
  WorkerFacts worker{.prefill_p1 = 0.003, .prefill_p2 = 7e-7, .decode_s = 0.012, .decode_s_per_token = 4e-6,
                     .rebuild_s = 1e-6, .import_s = 3e-6, .export_s = 4e-6, .load = 0, .running = 0};
  in.from = worker;
  in.from.running = 3;
  in.to = worker;
  in.link = {.bytes_per_second = 125e6, .rtt_seconds = 0.0005};
  ProfileFacts profile;
  profile.predictor_set = "set";
  profile.profile = "risk-0.005";
  profile.omitted_layers = 14;
  profile.groups = 7;
  profile.predictor_bytes = 7 * (1537 * 768 * 2);
  profile.set_bytes = profile.predictor_bytes + 4096;
  profile.exact_ends = 132;
  profile.gated = true;
  in.profile = profile;
  return in;
}

TEST(CostModel, GoldenTable) {
  Plan plan = MakePlan(Smol());
  const ModeCost& full = *plan.Find(Mode::kFull);
  EXPECT_EQ(full.bytes, 1000 * 30 * 768);  // M_full = T L 2 kv b
  EXPECT_NEAR(full.terms.at("transfer_s"), 23040000 / 125e6, 1e-12);
  // First round: three calls, the bytes, the import, and eight blocks that each wait for a decode step of three requests.
  const double step = 3 * (0.012 + 1000 * 4e-6);
  const double first = 0.0015 + 0.18432 + 0.003 + 8 * step;
  EXPECT_NEAR(full.terms.at("steps_s"), 8 * step, 1e-9);
  // Meanwhile ceil(0.573 / 0.048) = 12 cells were decoded; their round leaves 2, which the final copy takes.
  const double second = 0.0015 + 12 * 23040 / 125e6 + 12 * 3e-6 + step;
  EXPECT_EQ(full.terms.at("n_rounds"), 2);
  EXPECT_NEAR(full.terms.at("rounds_s"), second, 1e-9);
  const double final_copy = step + 0.001 + 2 * 23040 / 125e6 + 2 * 3e-6 + 0.005;
  EXPECT_NEAR(full.terms.at("final_s"), final_copy, 1e-9);
  EXPECT_NEAR(full.total_seconds, first + second + final_copy, 1e-9);
  const ModeCost& risk = *plan.Find(Mode::kRisk);
  EXPECT_EQ(risk.bytes, 23040000 - 868 * 14 * 768);  // ends go for all layers
  double transfer = static_cast<double>(risk.bytes) / 125e6;
  EXPECT_NEAR(risk.terms.at("rebuild_s"), 868 * 7e-6, 1e-12);
  EXPECT_NEAR(risk.total_seconds,
              0.0015 + transfer + 128 * 7e-6 + 0.003 + 9 * step + risk.terms.at("rounds_s") + risk.terms.at("final_s"), 1e-9);
  const ModeCost& replay = *plan.Find(Mode::kReplay);
  EXPECT_NEAR(replay.terms.at("replay_s"), 0.003 * 1000 + 7e-7 * 1e6, 1e-9);
  EXPECT_FALSE(plan.Find(Mode::kCoded)->possible);
  EXPECT_THAT(plan.Find(Mode::kCoded)->why_not, HasSubstr("no predictor set with a usable coded profile"));
  for (const ModeCost& cost : plan.alternatives) {
    if (cost.mode == Mode::kStay || cost.mode == Mode::kCoded) continue;
    double pause = cost.terms.at("pause_steps_s") + cost.terms.at("pause_rtt_s") + cost.terms.at("pause_tail_s") +
                   cost.terms.at("pause_commit_s");
    EXPECT_NEAR(cost.pause_seconds, pause, 1e-12) << Name(cost.mode);
  }
}

// With a profile that sends a tenth between the ends, on 100 Mbit/s.
Inputs Slow(int64_t tokens = 1000) {
  Inputs in = Smol(tokens);
  in.link.bytes_per_second = 12.5e6;
  in.from.coded_encode_s = 2e-4;
  in.to.coded_decode_s = 1.5e-4;
  CodedFacts coded;
  coded.predictor_set = "coded set";
  coded.profile = "coded-0.002";
  coded.token_bytes = 2304;
  coded.end_token_bytes = 11880;
  coded.ends = 40;
  coded.set_bytes = 42 << 20;
  coded.gated = true;
  in.coded = coded;
  return in;
}

TEST(CostModel, CodedCountsItsBytesAndItsCodec) {
  const Inputs in = Slow();
  const Plan plan = MakePlan(in);
  const ModeCost& coded = *plan.Find(Mode::kCoded);
  EXPECT_EQ(coded.bytes, 960 * 2304 + 40 * 11880);
  const double step = 3 * (0.012 + 1000 * 4e-6), transfer = static_cast<double>(coded.bytes) / 12.5e6;
  EXPECT_NEAR(coded.terms.at("transfer_s"), transfer, 1e-12);
  EXPECT_NEAR(coded.terms.at("encode_s"), 960 * 2e-4, 1e-12);
  EXPECT_NEAR(coded.terms.at("decode_s"), 960 * 1.5e-4, 1e-12);
  // The link is the slowest of the three; the first block is coded before it starts, the last decoded after it ends.
  EXPECT_NEAR(coded.terms.at("pipeline_s"), transfer + 128 * 3.5e-4, 1e-12);
  EXPECT_NEAR(coded.terms.at("bytes_saved"), 23040000 - coded.bytes, 1e-6);
  const double first = 17 * 0.0005 + transfer + 128 * 3.5e-4 + 0.003 + 9 * step;
  EXPECT_NEAR(coded.total_seconds, first + coded.terms.at("rounds_s") + coded.terms.at("final_s"), 1e-9);
  EXPECT_LT(coded.terms.at("pause_tail_s"), plan.Find(Mode::kFull)->terms.at("pause_tail_s")) << "the tail goes in 8 bits";
  EXPECT_EQ(plan.inputs.at("c_encode"), 2e-4);
  EXPECT_EQ(plan.inputs.at("c_decode"), 1.5e-4);
}

TEST(CostModel, ASlowCodecOrABusyWorkerIsTheBottleneck) {
  Inputs in = Slow();
  in.from.coded_encode_s = 1e-3;
  in.from.load = 0.5;
  EXPECT_NEAR(MakePlan(in).Find(Mode::kCoded)->terms.at("pipeline_s"), 960 * 2e-3 + 128 * (2e-3 + 1.5e-4), 1e-9);
}

TEST(CostModel, AutoTakesCodedOnASlowLinkOnlyWhereItMay) {
  Inputs in = Slow();
  in.must_move = true;
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kCoded);
  EXPECT_EQ(plan.profile, "coded-0.002");
  EXPECT_EQ(plan.predictor_set, "coded set");
  EXPECT_EQ(plan.break_even_moves, std::ceil((42 << 20) / plan.Find(Mode::kCoded)->terms.at("bytes_saved")));
  in.impossible[Mode::kCoded] = in.impossible[Mode::kRisk] = "the caller does not allow lossy modes";
  plan = MakePlan(in);
  EXPECT_NE(plan.chosen, Mode::kCoded);
  EXPECT_EQ(plan.Find(Mode::kCoded)->why_not, "the caller does not allow lossy modes");
  EXPECT_EQ(plan.profile, "risk-0.005") << "of what a lossy move would use";
  in = Slow();
  in.must_move = true;
  in.link.bytes_per_second = 10e9;
  EXPECT_NE(MakePlan(in).chosen, Mode::kCoded) << "a fast link needs no codec";
}

TEST(CostModel, AnAbsentCodecIsPlacedAndShared) {
  Inputs in = Slow();
  const double held = MakePlan(in).Find(Mode::kCoded)->total_seconds;
  in.coded->absent = true;
  in.coded->moves = 4;
  EXPECT_NEAR(MakePlan(in).Find(Mode::kCoded)->total_seconds, held + static_cast<double>(42 << 20) / 12.5e6 / 4, 1e-9);
}

TEST(CostModel, CodedOfNoMoreTokensThanTheEndsIsFull) {
  Inputs in = Slow(40);
  in.asked = Mode::kCoded;
  const Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kFull);
  EXPECT_THAT(plan.why, HasSubstr("40 cells are no more than the 40 ends"));
  EXPECT_FALSE(plan.Find(Mode::kCoded)->possible);
}

TEST(CostModel, RebuildBoundPipelineUsesTheSlowerSide) {
  Inputs in = Smol();
  in.to.rebuild_s = 1e-3;
  const Plan plan = MakePlan(in);
  const ModeCost& risk = *plan.Find(Mode::kRisk);
  EXPECT_NEAR(risk.terms.at("pipeline_s"), 868 * 7e-3 + 128 * 7e-3, 1e-9);
  EXPECT_EQ(plan.chosen, Mode::kFull);
  EXPECT_THAT(risk.why_not, HasSubstr("FULL takes"));
}

TEST(CostModel, ABusyDestinationTakesABlockAStep) {
  Inputs in = Smol();
  const double idle = MakePlan(in).Find(Mode::kFull)->terms.at("steps_s");
  in.to.running = 2;
  const double step_there = 2 * (0.012 + 1000 * 4e-6);
  EXPECT_NEAR(MakePlan(in).Find(Mode::kFull)->terms.at("steps_s"), idle + 8 * step_there, 1e-9);
}

TEST(CostModel, RoundsEndWhenTheyDoNotShrink) {
  Inputs in = Smol();
  in.request.tokens_left = 100000;
  in.from.running = 1;                // a token takes 16 ms
  in.link.bytes_per_second = 1e6;     // a cell takes 23 ms: every round leaves more than it took
  const Plan plan = MakePlan(in);
  const ModeCost& full = *plan.Find(Mode::kFull);
  EXPECT_EQ(full.terms.at("n_rounds"), 2);
  EXPECT_GT(full.terms.at("pause_tail_s"), full.terms.at("transfer_s")) << "what is left is more than there was";
  in.link.bytes_per_second = 2.5e6;   // 9 ms: each round leaves about 0.6 of what it took
  EXPECT_GT(MakePlan(in).Find(Mode::kFull)->terms.at("n_rounds"), 4);
  EXPECT_LE(MakePlan(in).Find(Mode::kFull)->terms.at("n_rounds"), 8);
}

TEST(CostModel, AnAbsentSetCostsItsPlacementShared) {
  Inputs in = Smol();
  double held = MakePlan(in).Find(Mode::kRisk)->total_seconds;
  in.profile->absent = true;
  Plan plan = MakePlan(in);
  EXPECT_TRUE(plan.set_absent);
  double once = static_cast<double>(in.profile->set_bytes) / 125e6;
  EXPECT_NEAR(plan.Find(Mode::kRisk)->total_seconds, held + once, 1e-9);
  in.profile->moves = 10;
  EXPECT_NEAR(MakePlan(in).Find(Mode::kRisk)->total_seconds, held + once / 10, 1e-9);
}

TEST(CostModel, BreakEven) {
  struct Row {
    int64_t n_kv;
    int omitted;
    int64_t predictor_bytes;
    double moves;
  };
  // ceil(M_pred / M_saved), M_saved = (T - ends) * omitted * 768.
  const Row rows[] = {{1000, 14, 16529856, 2}, {1000, 2, 2361408, 2}, {8000, 14, 16529856, 1}, {332, 14, 16529856, 8},
                      {132, 14, 16529856, 0},  {100, 14, 16529856, 0}, {1000, 0, 0, 0}};
  for (const Row& row : rows) {
    ProfileFacts profile{.omitted_layers = row.omitted, .predictor_bytes = row.predictor_bytes, .exact_ends = 132};
    EXPECT_EQ(BreakEvenMoves({.n_layer = 30, .kv = 192}, profile, row.n_kv), row.moves) << row.n_kv << " " << row.omitted;
  }
}

TEST(Decision, MovesWhenItPaysAndSaysWhyTheOthersLost) {
  Inputs in = Smol();
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kRisk);
  EXPECT_TRUE(plan.Find(Mode::kRisk)->why_not.empty());
  for (Mode loser : {Mode::kFull, Mode::kReplay, Mode::kStay}) EXPECT_FALSE(plan.Find(loser)->why_not.empty()) << Name(loser);
  EXPECT_EQ(plan.inputs.at("bandwidth"), 125e6);
  EXPECT_EQ(plan.break_even_moves, 2);
}

TEST(Decision, StaysWhenItDoesNotPay) {
  Inputs in = Smol();
  in.from.running = 1;
  in.to.running = 2;
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kStay);
  EXPECT_THAT(plan.Find(Mode::kFull)->why_not, HasSubstr("tokens left gain"));
  in.must_move = true;
  plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kRisk);
  EXPECT_FALSE(plan.Find(Mode::kStay)->possible);
}

TEST(Decision, NearlyDoneStays) {
  Inputs in = Smol();
  in.request.tokens_left = 1;
  EXPECT_EQ(MakePlan(in).chosen, Mode::kStay);
}

TEST(Decision, SlowLinkReplays) {
  Inputs in = Smol(64);
  in.link.bytes_per_second = 100e3;
  in.max_pause_seconds = 60;
  in.must_move = true;
  EXPECT_EQ(MakePlan(in).chosen, Mode::kReplay);
}

TEST(Decision, WhatFitsThePauseBudgetComesFirst) {
  Inputs in = Smol();
  in.link.bytes_per_second = 2e5;  // a cell takes 115 ms, a token 48 ms: pre-copy does not converge
  in.must_move = true;
  in.max_pause_seconds = 0.5;
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kReplay);
  EXPECT_THAT(plan.Find(Mode::kFull)->why_not, HasSubstr("above the budget"));
}

TEST(Decision, LossyModesOnlyWhenPossible) {
  Inputs in = Smol();
  in.impossible[Mode::kRisk] = "the caller does not allow lossy modes";
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kFull);
  EXPECT_EQ(plan.Find(Mode::kRisk)->why_not, "the caller does not allow lossy modes");
  in.profile.reset();
  EXPECT_FALSE(MakePlan(in).Find(Mode::kRisk)->possible);
}

TEST(Decision, AskedForIsDoneButShortRiskIsFull) {
  Inputs in = Smol();
  in.asked = Mode::kReplay;
  EXPECT_EQ(MakePlan(in).chosen, Mode::kReplay);
  in = Smol(132);
  in.asked = Mode::kRisk;
  Plan plan = MakePlan(in);
  EXPECT_EQ(plan.chosen, Mode::kFull);
  EXPECT_THAT(plan.why, HasSubstr("no more than the 132 exact ends"));
}

TEST(Decision, NothingPossibleStays) {
  Inputs in = Smol();
  for (Mode mode : {Mode::kFull, Mode::kRisk, Mode::kReplay}) in.impossible[mode] = "n_layer: 30 against 24";
  in.must_move = true;
  EXPECT_EQ(MakePlan(in).chosen, Mode::kStay);
}

TEST(Corrections, FollowWhatReallyHappened) {
  Corrections corrections;
  EXPECT_EQ(corrections.Factor(Mode::kFull), 1);
  Inputs in = Smol();
  for (int i = 0; i < 40; ++i) {
    in.corrections = corrections.All();
    corrections.Observe(Mode::kFull, MakePlan(in).Find(Mode::kFull)->total_seconds, 0.3);
  }
  in.corrections = corrections.All();
  EXPECT_NEAR(MakePlan(in).Find(Mode::kFull)->total_seconds, 0.3, 0.003);
  for (int i = 0; i < 100; ++i) corrections.Observe(Mode::kRisk, 1, 1000);
  EXPECT_LE(corrections.Factor(Mode::kRisk), 5);
  corrections.Observe(Mode::kReplay, 0, 1);
  corrections.Observe(Mode::kReplay, 1, std::nan(""));
  EXPECT_EQ(corrections.Factor(Mode::kReplay), 1);
}

TEST(Links, AverageAndAge) {
  FakeClock clock;
  LinkTable links(&clock);
  EXPECT_FALSE(links.Get("A", "B").has_value());
  links.Observe("A", "B", 10'000'000, 0.101, 0.001);
  EXPECT_NEAR(links.Get("A", "B")->bytes_per_second, 1e8, 1);
  EXPECT_NEAR(links.Get("A", "B")->rtt_seconds, 0.001, 1e-9);
  clock.Advance(absl::Seconds(7));
  EXPECT_EQ(links.Get("A", "B")->age, absl::Seconds(7));
  links.Observe("A", "B", 10'000'000, 0.2, 0);
  EXPECT_NEAR(links.Get("A", "B")->bytes_per_second, 0.7 * 1e8 + 0.3 * 5e7, 1);
  links.Observe("A", "B", 1024, 1, 0);  // small: hardly counts
  EXPECT_NEAR(links.Get("A", "B")->bytes_per_second, 8.5e7, 1e5);
  links.Observe("A", "B", 0, 1, 0);
  links.Observe("A", "B", 5, 0, 0);
  EXPECT_EQ(links.Get("A", "B")->samples, 3);
  EXPECT_FALSE(links.Get("B", "A").has_value());
}

}  // namespace
}  // namespace riskkv::cost
