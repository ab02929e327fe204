// Every mutant of protocol.md, 8, put in, must be found: by cells of the matrix, or where another line of defence keeps the promise all
// the same, by the rule itself. The same cells without a mutant are part of the matrix; the rules are tested both ways here.
#include "common/base/digest.h"
#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/faults/cell.h"

namespace riskkv::faults {
namespace {

constexpr absl::Duration kShortPatience = absl::Seconds(3);
constexpr int kTries = 25;  // a cell is a race; the mutant must show in one of so many

class Mutant {
 public:
  explicit Mutant(std::string name) : name_(std::move(name)) { Failpoints::Get().SetMutant(name_, true); }
  ~Mutant() { Failpoints::Get().SetMutant(name_, false); }

 private:
  const std::string name_;
};

struct Case {
  const char* mutant;
  const char* state;
  const char* fault;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.mutant; }

class MutantTest : public ::testing::TestWithParam<Case> {};

TEST_P(MutantTest, IsFoundByTheMatrix) {
#ifndef RISKKV_FAILPOINTS
  GTEST_SKIP() << "built without failpoints";
#endif
  const Mutant mutant(GetParam().mutant);
  std::string outcomes;
  for (int i = 0; i < kTries; ++i) {
    const CellResult result = RunCell({GetParam().state, GetParam().fault, Mode::kFull}, kShortPatience);
    if (!result.ok()) {
      std::string text = result.violations.front();
      RecordProperty("violation", text);
      std::cout << GetParam().mutant << ": " << text << "\n";
      return;
    }
    outcomes += result.outcome + (result.reached ? "; " : " (not reached); ");
  }
  FAIL() << "nothing was broken: " << outcomes;
}

INSTANTIATE_TEST_SUITE_P(
    Protocol, MutantTest,
    ::testing::Values(Case{"source resumes on a timeout", "PREPARED", "store away past the deadline"},
                      Case{"not committed taken from a read", "REBUILT", "pause destination, source unheard"},
                      Case{"abort sent before it is durable", "PREPARED", "store away past the deadline"},
                      Case{"late commit of a closed attempt accepted", "PREPARED", "cancel, and PREPARED comes late"},
                      Case{"source frees on COMMITTED", "COMMITTED", "kill destination"},
                      Case{"destination delivers before RESUMED", "START", "message Resumed: delay"},
                      Case{"owner and job written in two transactions", "ACCEPTED", "coordinator dies between transactions"},
                      Case{"restarted worker keeps its boot id", "FINAL", "FINAL again to a restarted destination"},
                      Case{"lease expiry changes the owner", "PRECOPY", "pause source"}),
    [](const auto& info) {
      std::string name = info.param.mutant;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

// Cells freed by a lease: the coordinator rolls such a move back, so that no promise is broken; but it must not be lost at all.
TEST(MutantRules, PreparedCellsOutliveTheirLease) {
  const CellSpec cell{"PREPARED", "store away for longer than a lease", Mode::kFull};
  CellResult result;
  for (int i = 0; i < kTries && result.outcome.rfind("SUCCEEDED", 0) != 0; ++i) result = RunCell(cell);
  EXPECT_EQ(result.outcome.rfind("SUCCEEDED", 0), 0u) << result.outcome;
  EXPECT_TRUE(result.ok()) << result.violations.front();
#ifdef RISKKV_FAILPOINTS
  const Mutant mutant("prepared cells freed by a lease");
  for (int i = 0; i < 2; ++i) EXPECT_NE(RunCell(cell, kShortPatience).outcome.rfind("SUCCEEDED", 0), 0u);
#endif
}

// The digest of a segment would find the damage; the frame must not get so far.
TEST(MutantRules, AFrameOfAnOlderAttemptIsRefusedAndCounted) {
  Scene s;
  WorkerPtr b = s.cluster.Worker("b");
  worker::ReserveParams p;
  p.fingerprint = b->manager->facts().fingerprint;
  p.mode = worker::MoveMode::kFull;
  p.n_kv = 8;
  p.growth = p.headroom = 8;
  p.fence = {"m", 2, 1, "a1-00", "a1", b->process->boot, 1};
  ASSERT_TRUE(b->incoming->Reserve(p).ok());
  const std::string bytes(8 * 160, 'x');
  worker::RoundManifest m;
  m.fence = p.fence;
  m.fingerprint = p.fingerprint;
  m.mode = p.mode;
  m.round = 1;
  m.frontier = 8;
  worker::Segment segment;
  segment.id = 1;
  segment.range = {0, 8};
  for (int l = 0; l < p.fingerprint.layout.n_layer; ++l) segment.layers.push_back(l);
  segment.bytes = static_cast<int64_t>(bytes.size());
  segment.sha256 = Sha256Hex(bytes);
  m.segments = {segment};
  ASSERT_TRUE(b->incoming->DeclareRound(m).ok()) << b->incoming->DeclareRound(m).status();
  worker::Frame frame{"m", 1, 1, 1, 0, 1280, Xxh3(bytes.data(), bytes.size()), bytes};
  worker::IncomingMoves::Push push(b->incoming.get());
  EXPECT_FALSE(push.Accept(frame).ok());
  EXPECT_EQ(b->incoming->stale_refusals(), 1);
#ifdef RISKKV_FAILPOINTS
  const Mutant mutant("frame of an older attempt accepted");
  worker::IncomingMoves::Push mutated(b->incoming.get());
  EXPECT_TRUE(mutated.Accept(frame).ok());
#endif
}

// The new owner of a recovered request produces indices again that the client holds from the old one.
TEST(MutantRules, TokensAreIdentifiedByTheirIndexAlone) {
  auto feed = [] {
    client::StreamMerger merger(0, 0);
    merger.OnSourceOpened(1, {"a", "a"});
    client::TokenEvent token{.index = 0, .token = 7, .epoch = 1};
    merger.OnEvent(1, token);
    merger.OnSourceOpened(2, {"b", "b", 2, 0});
    token.epoch = 2;
    return merger.OnEvent(2, token).action;
  };
  EXPECT_EQ(feed(), client::Action::kDrop);
#ifdef RISKKV_FAILPOINTS
  const Mutant mutant("tokens deduplicated by epoch and index");
  EXPECT_EQ(feed(), client::Action::kDeliver);
#endif
}

}  // namespace
}  // namespace riskkv::faults
