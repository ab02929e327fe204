#include "tests/integration/processes/process_fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/time/clock.h"
#include "common/codec/selection_codec.h"
#include "common/engine/llama/llama_engine.h"
#include "common/predictor/selection_set.h"
#include "fmt/format.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/cli/demo/options.h"
#include "services/cli/demo/prompt_text.h"
#include "services/cli/rpc.h"
#include "services/client/migration_follower.h"
#include "tests/testing/paths.h"

namespace riskkv::cli {
namespace {

using ::riskkv::testing::IsOk;

// Only a hang is this long, also on a machine that compiles meanwhile.
constexpr absl::Duration kPatience = absl::Minutes(5);
constexpr int kTextTokens = 1000;

// Tokens of plain English, and a predictor set for this model in `folder`.
absl::StatusOr<std::vector<int32_t>> Prepare(const std::string& model, const std::string& folder) {
  LlamaOptions options;
  options.model_path = model;
  options.n_cells = 256;
  options.n_sequences = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<LlamaEngine> engine, LlamaEngine::Create(options));
  ASSIGN_OR_RETURN(std::string set, SelectionSetBytes(engine->facts(), {}, kernels::WeightType::kF16));
  ASSIGN_OR_RETURN(const auto opened, PredictorSet::FromBytes(std::move(set), "the selection set"));
  ASSIGN_OR_RETURN(const std::string coded, WithSelectionCodec(*opened));
  RETURN_IF_ERROR(WritePredictorSet(coded, folder + "/").status());
  std::string text;
  while (text.size() < 8 * kTextTokens) text += BuiltInText();
  ASSIGN_OR_RETURN(std::vector<Token> tokens, engine->Tokenize(text, /*add_special=*/true, /*parse_special=*/false));
  if (tokens.size() < kTextTokens) return absl::InternalError("the text is too short");
  return std::vector<int32_t>(tokens.begin(), tokens.begin() + kTextTokens);
}

}  // namespace

void ProcessTest::SetUp() {
  const char* model = std::getenv("RISKKV_MODEL");
  if (model == nullptr) GTEST_SKIP() << "RISKKV_MODEL is not set";
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fmt::format("{}riskkv-{}-{}", ::testing::TempDir(), test->name(), ::getpid());
  std::filesystem::create_directories(folder_ + "/sets");
  auto text = Prepare(model, folder_ + "/sets");
  ASSERT_OK(text.status());
  text_ = *std::move(text);
  DemoOptions options;
  options.model = model;
  options.coordinator_binary = testing::BinaryPath("riskkv-coordinator");
  options.worker_binary = testing::BinaryPath("riskkv-worker");
  cluster_ = std::make_unique<Cluster>(options, folder_, folder_ + "/sets");
  ASSERT_OK(cluster_->Start());
  ASSERT_OK(cluster_->AwaitServing(kPatience));
}

void ProcessTest::TearDown() {
  cluster_.reset();
  if (HasFailure()) fmt::print("logs are in {}\n", folder_);
  if (!folder_.empty() && !HasFailure()) std::filesystem::remove_all(folder_);
}

v1::GenerateRequest ProcessTest::Request(int tokens, int max_tokens) const {
  v1::GenerateRequest request;
  request.mutable_tokens()->mutable_ids()->Add(text_.begin(), text_.begin() + tokens);
  // Without it a small model soon repeats itself, and equal output would mean little.
  request.mutable_sampling()->set_repeat_penalty(1.15f);
  request.mutable_stop()->set_max_tokens(max_tokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

std::unique_ptr<client::RequestStream> ProcessTest::Generate(int worker, const v1::GenerateRequest& request) {
  client::StreamOptions options;
  options.coordinator = cluster_->coordinator();
  return client::RequestStream::Generate(cluster_->worker(worker), request, options, &clock_);
}

void ProcessTest::ReadUntil(client::RequestStream& stream, int64_t n) {
  while (stream.merger().next_index() < n) {
    auto item = stream.Next(kPatience);
    ASSERT_OK(item.status());
    ASSERT_FALSE(std::holds_alternative<client::FinishedEvent>(*item)) << "ended after " << stream.merger().next_index();
  }
}

void ProcessTest::ReadAndEnd(client::RequestStream& stream, int64_t more) {
  ASSERT_NO_FATAL_FAILURE(ReadUntil(stream, stream.merger().next_index() + more));
  ASSERT_OK(stream.CancelRequest().status());
  for (bool ended = false; !ended;) {
    auto item = stream.Next(kPatience);
    ASSERT_OK(item.status());
    ended = std::holds_alternative<client::FinishedEvent>(*item);
  }
  EXPECT_EQ(stream.log().Lost(stream.merger().end().output_tokens), 0);
  EXPECT_EQ(stream.log().Duplicated(), 0);
}

std::vector<int32_t> ProcessTest::Unmoved(v1::GenerateRequest request, std::size_t n) {
  AwaitEmpty(0);
  request.mutable_stop()->set_max_tokens(static_cast<int>(n));
  auto stream = Generate(0, request);
  for (;;) {
    auto item = stream->Next(kPatience);
    EXPECT_OK(item.status());
    if (!item.ok() || std::holds_alternative<client::FinishedEvent>(*item)) return stream->log().Tokens();
  }
}

absl::StatusOr<v1::Outcome> ProcessTest::Migrate(const std::string& request_id, uint64_t epoch, const std::string& to,
                                                 v1::Mode mode, const EventSink& sink) {
  v1::MigrateRequest request;
  request.set_migration_id(fmt::format("m-{}", ++migrations_));
  request.set_request_id(request_id);
  request.set_expected_epoch(epoch);
  request.set_destination(to);
  request.set_mode(mode);
  request.set_allow_lossy(mode == v1::MODE_RISK || mode == v1::MODE_CODED);
  request.set_allow_ungated(mode == v1::MODE_RISK);
  if (mode == v1::MODE_RISK) request.set_profile(kRiskProfile);
  if (mode == v1::MODE_CODED) request.set_profile(kCodedProfile);
  request.set_max_pause_ms(10000);  // nothing here is about the budget
  request.set_deadline_ms(absl::ToInt64Milliseconds(kPatience));
  request.set_on_failure(v1::MigrateRequest::FAIL);
  client::MigrationFollower follower(cluster_->coordinator());
  return follower.Migrate(request, sink ? sink : [](const v1::MigrationEvent&) {});
}

void ProcessTest::AwaitEmpty(int worker) {
  Peer<v1::Worker> peer("worker", cluster_->worker(worker));
  const absl::Time end = absl::Now() + kPatience;
  for (;;) {
    auto info = peer.Call(&v1::Worker::Stub::Describe, v1::DescribeRequest());
    ASSERT_OK(info.status());
    if (info->load().cells_used() == 0) return;
    ASSERT_LT(absl::Now(), end) << info->load().cells_used() << " cells are still held on " << info->worker_id();
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace riskkv::cli
