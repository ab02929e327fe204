// Every subcommand against servers with written answers: output for people, JSON for machines, exit codes.
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "tests/integration/cli/fake_coordinator.h"
#include "tests/integration/client/scripted_worker.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::cli {
namespace {

using nlohmann::json;
using ::riskkv::testing::FakeCoordinator;
using ::riskkv::testing::Script;
using ::riskkv::testing::ScriptedWorker;
using ::testing::HasSubstr;

struct Ran {
  int code = -1;
  std::string out, err;
};

Ran Cli(std::vector<std::string> args) {
  args.insert(args.begin(), "riskkv");
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  std::ostringstream out, err;
  Ran ran;
  ran.code = Main(static_cast<int>(argv.size()), argv.data(), out, err);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

v1::MigrationEvent Event(uint64_t seq, v1::MigrationState state) {
  v1::MigrationEvent e;
  e.set_migration_id("m-1");
  e.set_seq(seq);
  e.set_state(state);
  e.set_attempt(1);
  e.set_elapsed_ms(10.0 * static_cast<double>(seq));
  return e;
}

v1::MigrationEvent Terminal(uint64_t seq, v1::MigrationState state, v1::Mode mode) {
  v1::MigrationEvent e = Event(seq, state);
  e.mutable_outcome()->set_state(state);
  e.mutable_outcome()->set_mode(mode);
  e.mutable_outcome()->set_owner("b");
  e.mutable_outcome()->set_epoch(2);
  e.mutable_outcome()->set_start_index(40);
  return e;
}

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    coordinator_.owner.set_request_id("r-1");
    coordinator_.owner.set_owner("a");
    coordinator_.owner.set_address(worker_.address());
    coordinator_.owner.set_epoch(3);
    v1::WorkerInfo* w = coordinator_.workers.add_workers();
    w->set_worker_id("a");
    w->set_address(worker_.address());
    w->set_serving(true);
    w->set_model("SmolLM2");
    w->mutable_load()->set_cells_total(4096);
    w->mutable_load()->set_cells_used(512);
    v1::Link* link = coordinator_.workers.add_links();
    link->set_source("a");
    link->set_destination("b");
    link->set_bytes_per_second(12.5e6);
    link->set_samples(3);
    v1::PredictorSetInfo* set = coordinator_.calibration.sets.add_sets();
    set->set_digest(std::string(64, 'c'));
    set->set_moves(7);
    set->set_break_even_moves(2.5);
    set->add_workers("a");
    coordinator_.migration.set_migration_id("m-1");
    coordinator_.migration.set_state(v1::MIGRATION_STATE_PRECOPY);
  }
  std::vector<std::string> Migrate(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {
        "migrate", "--coordinator", coordinator_.address(), "--request", "r-1", "--to", "b"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  ScriptedWorker worker_{"a"};
  FakeCoordinator coordinator_;
};

TEST_F(CommandsTest, EveryHelpShowsAnExample) {
  for (const char* name : {"calibrate", "evaluate", "inspect", "generate", "requests", "workers",
                           "migrations", "migrate", "plan", "watch", "demo", "health", "version"}) {
    Ran ran = Cli({name, "--help"});
    EXPECT_EQ(ran.code, kExitOk) << name;
    EXPECT_THAT(ran.out, HasSubstr("Example:")) << name;
    EXPECT_THAT(ran.out, HasSubstr(std::string("riskkv ") + name)) << name;
  }
}

TEST_F(CommandsTest, WrongArgumentsAreUsage) {
  EXPECT_EQ(Cli({}).code, kExitUsage);
  EXPECT_EQ(Cli({"frobnicate"}).code, kExitUsage);
  EXPECT_EQ(Cli({"migrate", "--request", "r-1"}).code, kExitUsage);
  EXPECT_EQ(Cli({"demo"}).code, kExitUsage);
  Ran ran = Cli(Migrate({"--mode", "teleport"}));
  EXPECT_EQ(ran.code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("mode 'teleport' is not one of auto, risk, full"));
}

TEST_F(CommandsTest, MigratePrintsEventsAndFillsTheEpochIn) {
  coordinator_.events = {Event(1, v1::MIGRATION_STATE_ACCEPTED), Event(2, v1::MIGRATION_STATE_PRECOPY),
                         Terminal(3, v1::MIGRATION_STATE_SUCCEEDED, v1::MODE_RISK)};
  Ran ran = Cli(Migrate({"--mode", "risk", "--allow-lossy", "--id", "m-1"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("ACCEPTED"));
  EXPECT_THAT(ran.out, HasSubstr("RISK: b () owns it at epoch 2 from index 40"));
  EXPECT_EQ(coordinator_.asked().expected_epoch(), 3u);
  EXPECT_EQ(coordinator_.asked().mode(), v1::MODE_RISK);
  EXPECT_TRUE(coordinator_.asked().allow_lossy());
  EXPECT_EQ(coordinator_.asked().migration_id(), "m-1");
}

TEST_F(CommandsTest, MigrateGoesOnAcrossABrokenConnection) {
  coordinator_.events = {Event(1, v1::MIGRATION_STATE_ACCEPTED), Event(2, v1::MIGRATION_STATE_PRECOPY),
                         Terminal(3, v1::MIGRATION_STATE_SUCCEEDED, v1::MODE_FULL)};
  coordinator_.break_after = 2;
  Ran ran = Cli(Migrate({"--json", "--epoch", "9"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  std::istringstream lines(ran.out);
  std::vector<json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["state"], "ACCEPTED");
  EXPECT_EQ(events[2]["outcome"]["mode"], "FULL");
  EXPECT_EQ(events[2]["outcome"]["start_index"], 40);
  EXPECT_EQ(coordinator_.asked().expected_epoch(), 9u);
  EXPECT_EQ(coordinator_.asked().migration_id().size(), 16u) << "random unless given";
}

TEST_F(CommandsTest, AMoveThatFailedHasItsOwnExitCode) {
  coordinator_.events = {Event(1, v1::MIGRATION_STATE_ACCEPTED),
                         Terminal(2, v1::MIGRATION_STATE_ABORTED, v1::MODE_FULL)};
  EXPECT_EQ(Cli(Migrate()).code, kExitNotMoved);
  coordinator_.events.back() = Terminal(2, v1::MIGRATION_STATE_STAYED, v1::MODE_STAY);
  EXPECT_EQ(Cli(Migrate()).code, kExitOk);
}

TEST_F(CommandsTest, ARefusalSaysWhatWhichWhyAndWhatFollows) {
  coordinator_.refuse =
      MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS", "worker b: 900 cells wanted, 128 free");
  coordinator_.refuse = WithContext(coordinator_.refuse, "destination", "RESERVED");
  Ran ran = Cli(Migrate());
  EXPECT_EQ(ran.code, kExitRefused);
  EXPECT_THAT(ran.err, HasSubstr("900 cells wanted, 128 free"));
  EXPECT_THAT(ran.err, HasSubstr("reason: NO_BLOCKS at the destination, in RESERVED"));
  EXPECT_THAT(ran.err, HasSubstr("the source goes on serving"));
  Ran machine = Cli(Migrate({"--json"}));
  json error = json::parse(machine.out)["error"];
  EXPECT_EQ(error["reason"], "NO_BLOCKS");
  EXPECT_EQ(error["source_still_serving"], true);
  EXPECT_EQ(error["exit_code"], kExitRefused);
}

TEST_F(CommandsTest, UnknownRequestIsNotFound) {
  Ran ran = Cli({"migrate", "--coordinator", coordinator_.address(), "--request", "r-9", "--to", "b"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("no request r-9"));
}

TEST_F(CommandsTest, NobodyThereIsUnavailable) {
  Ran ran = Cli({"workers", "--coordinator", "127.0.0.1:1"});
  EXPECT_EQ(ran.code, kExitUnavailable);
  EXPECT_THAT(ran.err, HasSubstr("coordinator 127.0.0.1:1"));
  EXPECT_THAT(ran.err, HasSubstr("PEER_UNREACHABLE"));
}

TEST_F(CommandsTest, PlanShowsCostsAndWhy) {
  coordinator_.plan.set_source("a");
  coordinator_.plan.set_destination("b");
  coordinator_.plan.set_chosen(v1::MODE_RISK);
  coordinator_.plan.set_why("fewest bytes within the pause budget");
  v1::ModeCost* risk = coordinator_.plan.add_alternatives();
  risk->set_mode(v1::MODE_RISK);
  risk->set_possible(true);
  risk->set_total_seconds(0.25);
  risk->set_bytes(5000000);
  (*risk->mutable_terms())["transfer_s"] = 0.2;
  v1::ModeCost* replay = coordinator_.plan.add_alternatives();
  replay->set_mode(v1::MODE_REPLAY);
  replay->set_why_not("3.1 s of prefill");
  (*coordinator_.plan.mutable_inputs())["bandwidth"] = 12.5e6;
  std::vector<std::string> args = Migrate();
  args[0] = "plan";
  Ran ran = Cli(args);
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  for (const char* s :
       {"*RISK", "250 ms", "5.00 MB", "transfer 200 ms", "3.1 s of prefill", "fewest bytes", "bandwidth"}) {
    EXPECT_THAT(ran.out, HasSubstr(s));
  }
  args.push_back("--json");
  json plan = json::parse(Cli(args).out);
  EXPECT_EQ(plan["chosen"], "RISK");
  EXPECT_EQ(plan["alternatives"][0]["terms"]["transfer_s"], 0.2);
}

TEST_F(CommandsTest, WorkersShowsLoadLinksAndSets) {
  Ran ran = Cli({"workers", "--coordinator", coordinator_.address()});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  for (const char* s : {"512/4096", "100.0 Mbit/s", "cccccccccccc", "2.5"})
    EXPECT_THAT(ran.out, HasSubstr(s));
  json j = json::parse(Cli({"workers", "--coordinator", coordinator_.address(), "--json"}).out);
  EXPECT_EQ(j["workers"][0]["load"]["cells_used"], 512);
  EXPECT_EQ(j["sets"][0]["moves"], 7);
  EXPECT_EQ(j["links"][0]["bytes_per_second"], 12.5e6);
}

TEST_F(CommandsTest, MigrationsListShowCancel) {
  std::string c = coordinator_.address();
  EXPECT_THAT(Cli({"migrations", "list", "--coordinator", c}).out, HasSubstr("PRECOPY"));
  EXPECT_THAT(Cli({"migrations", "show", "m-1", "--coordinator", c}).out, HasSubstr("m-1"));
  Ran unknown = Cli({"migrations", "show", "m-9", "--coordinator", c});
  EXPECT_EQ(unknown.code, kExitNotFound);
  Ran cancel = Cli({"migrations", "cancel", "m-1", "--coordinator", c});
  EXPECT_EQ(cancel.code, kExitRefused);
  EXPECT_THAT(cancel.err, HasSubstr("ALREADY_COMMITTED"));
  coordinator_.events = {Event(1, v1::MIGRATION_STATE_ACCEPTED),
                         Terminal(2, v1::MIGRATION_STATE_SUCCEEDED, v1::MODE_FULL)};
  EXPECT_EQ(Cli({"watch", "m-1", "--coordinator", c}).code, kExitOk);
}

TEST_F(CommandsTest, GenerateStreamsTextAndCounts) {
  auto play = [](Script& s, const v1::AttachRequest&) {
    s.Started(1);
    s.Tokens(0, 3, 1);
    s.Finished(3, 1);
    return absl::OkStatus();
  };
  worker_.OnGenerate(play);
  Ran ran = Cli({"generate", "--address", worker_.address(), "--prompt", "x"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, "<0><1><2>\n");
  EXPECT_THAT(ran.err, HasSubstr("LENGTH after 3 tokens"));
  // The coordinator finds the worker.
  json j =
      json::parse(Cli({"generate", "--coordinator", coordinator_.address(), "--prompt", "x", "--json"}).out);
  EXPECT_EQ(j["text"], "<0><1><2>");
  EXPECT_EQ(j["lost"], 0);
  EXPECT_EQ(j["duplicated"], 0);
  EXPECT_EQ(j["tokens"].size(), 3u);
}

TEST_F(CommandsTest, GenerateNeedsOneInput) {
  EXPECT_EQ(Cli({"generate", "--address", worker_.address()}).code, kExitUsage);
  EXPECT_EQ(Cli({"generate", "--prompt", "x"}).code, kExitUsage);
  EXPECT_EQ(Cli({"generate", "--address", worker_.address(), "--prompt-file", "/nowhere"}).code,
            kExitNotFound);
}

TEST_F(CommandsTest, HealthTellsServing) {
  Ran ran = Cli({"health", "--address", coordinator_.address()});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, "SERVING\n");
  EXPECT_EQ(Cli({"health", "--address", coordinator_.address(), "--service", "no.such.Service"}).code,
            kExitNotFound);
  EXPECT_EQ(Cli({"health", "--address", "127.0.0.1:1", "--timeout", "1"}).code, kExitUnavailable);
}

TEST_F(CommandsTest, VersionIsThere) {
  EXPECT_TRUE(json::parse(Cli({"version", "--json"}).out).contains("riskkv"));
}

}  // namespace
}  // namespace riskkv::cli
