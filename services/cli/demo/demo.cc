#include "services/cli/demo/demo.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/cli/demo/prompt_text.h"
#include "services/cli/demo/report.h"
#include "services/cli/exit_code.h"
#include "services/cli/interrupt.h"
#include "services/cli/migration_text.h"
#include "services/cli/report_error.h"
#include "services/cli/rpc.h"
#include "services/cli/table.h"

namespace riskkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kCharsPerToken = 4.2;  // of English prose, about
constexpr int kSlowMoveAfter = 16;      // a move over a slow link needs more of the request to happen in

// The work folder: kept when something went wrong or it was asked for.
class WorkFolder {
 public:
  static absl::StatusOr<WorkFolder> Create(const std::string& asked) {
    if (!asked.empty()) {
      std::error_code error;
      fs::create_directories(asked, error);
      if (error) return absl::InternalError(fmt::format("cannot create {}: {}", asked, error.message()));
      return WorkFolder(asked, false);
    }
    std::string name = (fs::temp_directory_path() / "riskkv-demo-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return absl::InternalError(fmt::format("cannot create {}", name));
    return WorkFolder(name, true);
  }
  void Remove() const {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  WorkFolder(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}
  std::string path_;
  bool temporary_;
};

// The text prompts are cut from: never one the predictors were fitted on, if there is another.
absl::StatusOr<std::string> PromptSource(const DemoOptions& o) {
  for (const std::string& path : {o.text, o.confirm, o.select}) {
    if (path.empty()) continue;
    std::ifstream in(path, std::ios::binary);
    if (!in) return absl::NotFoundError(fmt::format("cannot read {}", path));
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return BuiltInText();
}

absl::StatusOr<v1::WorkerInfo> DescribeWorker(const Cluster& cluster) {
  return Peer<v1::Worker>("worker", cluster.worker(0)).Call(&v1::Worker::Stub::Describe, v1::DescribeRequest());
}

absl::StatusOr<ProfileChoice> Choose(const Cluster& cluster, Narrator& narrator) {
  absl::StatusOr<v1::WorkerInfo> info = DescribeWorker(cluster);
  RETURN_IF_ERROR(info.status());
  ASSIGN_OR_RETURN(ProfileChoice choice, ChooseProfile(info->sets()));
  const v1::ProfileInfo& p = choice.profile;
  narrator.Line(fmt::format("model {}, {} layers; set {}, {} groups", info->model(),
                            info->fingerprint().n_layer(), ShortDigest(choice.set.digest()),
                            choice.set.groups_size()));
  narrator.Line(
      fmt::format("profile {}: {} of {} layers are not sent; change of NLL {:+.4f} (90 % bound {:+.4f})",
                  p.name(), p.omitted_layers_size(), info->fingerprint().n_layer(), p.mean(), p.upper90()));
  if (!p.gated())
    narrator.Line(
        "NO PROFILE PASSED ITS GATE: this one is UNGATED, the safest there is, for this demonstration only");
  return choice;
}

MoveSpec RiskSpec(const DemoOptions& o, const ProfileChoice& choice, const std::string& text) {
  MoveSpec spec;
  spec.prompt = CutPrompt(text, 0, 2, static_cast<size_t>(o.prompt_tokens * kCharsPerToken));
  spec.max_tokens = o.max_tokens;
  spec.move_after = o.move_after;
  spec.mode = v1::MODE_RISK;
  spec.predictor_set = choice.set.digest();
  spec.profile = choice.profile.name();
  spec.allow_ungated = !choice.profile.gated();
  spec.max_pause_ms = o.max_pause_ms;
  return spec;
}

MoveSpec FullSpec(const DemoOptions& o, const std::string& text) {
  MoveSpec spec;
  spec.prompt = CutPrompt(text, 1, 2, static_cast<size_t>(o.prompt_tokens * kCharsPerToken / 2));
  spec.max_tokens = std::max(o.max_tokens / 2, 2);
  spec.move_after = std::max(o.move_after / 2, 1);
  spec.mode = v1::MODE_FULL;
  spec.max_pause_ms = o.max_pause_ms;
  return spec;
}

// The long request again, in every mode, from the worker behind the slow link.
std::vector<MoveSpec> LinkSpecs(const DemoOptions& o, const DemoResult& result, const absl::StatusOr<ProfileChoice>& coded,
                                const std::string& text) {
  MoveSpec spec = RiskSpec(o, result.choice, text);
  spec.from = 2;
  spec.move_after = std::min(o.move_after, kSlowMoveAfter);
  // Pauses are what the table shows: no budget may end a move of it on a slow machine.
  spec.max_pause_ms = std::max(o.max_pause_ms, 5000);
  std::vector<MoveSpec> specs;
  if (coded.ok()) {
    specs.push_back(spec);
    specs.back().mode = v1::MODE_CODED;
    specs.back().predictor_set = coded->set.digest();
    specs.back().profile = coded->profile.name();
    specs.back().allow_ungated = false;
  }
  specs.push_back(spec);
  spec.predictor_set.clear();
  spec.profile.clear();
  spec.allow_ungated = false;
  for (v1::Mode mode : {v1::MODE_FULL, v1::MODE_REPLAY}) {
    specs.push_back(spec);
    specs.back().mode = mode;
  }
  return specs;
}

absl::StatusOr<LinkComparison> PlayLink(const DemoOptions& o, Cluster& cluster, const DemoResult& result, const std::string& text,
                                        Narrator& narrator, const Clock& clock) {
  narrator.Step(fmt::format("The long request again, moved once in each mode over a link of {} Mbit/s (worker c to b)", o.link_mbit));
  ASSIGN_OR_RETURN(const v1::WorkerInfo info, DescribeWorker(cluster));
  const absl::StatusOr<ProfileChoice> coded = ChooseCodedProfile(info.sets());
  const std::vector<MoveSpec> specs = LinkSpecs(o, result, coded, text);
  LinkComparison link;
  link.mbit = o.link_mbit;
  if (!coded.ok()) link.coded_left_out = std::string(coded.status().message());
  ASSIGN_OR_RETURN(link.unmoved, RunUnmoved(cluster.worker(0), specs[0].prompt, specs[0].max_tokens, clock));
  RETURN_IF_ERROR(RunComparison(cluster, specs, narrator, clock, link));
  narrator.Step("What each way would have cost there, by the coordinator's cost model");
  narrator.Block(PlanSummary(link.rows[0].report.plan));
  return link;
}

void Tell(const MoveReport& report, Narrator& narrator) {
  std::string lines;
  for (const v1::MigrationEvent& event : report.events) lines += EventLine(event) + "\n";
  narrator.Block(lines);
}

absl::StatusOr<DemoResult> Play(const DemoOptions& o, Cluster& cluster, Narrator& narrator,
                                const Clock& clock) {
  ASSIGN_OR_RETURN(std::string text, PromptSource(o));
  DemoResult result;
  ASSIGN_OR_RETURN(result.choice, Choose(cluster, narrator));

  MoveSpec risk = RiskSpec(o, result.choice, text);
  narrator.Step("A long generation starts on worker a, and is moved to b in RISK mode while it runs");
  narrator.Text("... " + risk.prompt.substr(risk.prompt.size() - std::min<size_t>(risk.prompt.size(), 240)));
  narrator.Mark("the prompt ends; what follows is generated on worker a");
  ASSIGN_OR_RETURN(result.risk, RunMove(cluster, risk, narrator, clock));
  narrator.Step("What the coordinator said of that move");
  Tell(result.risk, narrator);
  narrator.Step("What each way would have cost, if it must move (asked just before)");
  narrator.Block(PlanSummary(result.risk.plan));

  MoveSpec full = FullSpec(o, text);
  narrator.Step(
      "A second request, greedy: once on worker a alone, once moved in FULL mode; are the tokens the same?");
  ASSIGN_OR_RETURN(result.unmoved, RunUnmoved(cluster.worker(0), full.prompt, full.max_tokens, clock));
  ASSIGN_OR_RETURN(result.full, RunMove(cluster, full, narrator, clock));
  Tell(result.full, narrator);
  if (o.link_mbit > 0) {
    ASSIGN_OR_RETURN(result.link, PlayLink(o, cluster, result, text, narrator, clock));
  }
  return result;
}

void Conclude(const DemoResult& result, const Verdicts& verdicts, const DemoOptions& o, std::ostream& out,
              Narrator& narrator) {
  if (!o.json) {
    narrator.Step("Result");
    narrator.Block(ReportTable(result));
    if (result.link) narrator.Block(LinkTableText(*result.link));
  }
  for (const std::string& line : verdicts.broken) narrator.Line("BROKEN: " + line);
  if (verdicts.broken.empty()) narrator.Step("Nothing lost, nothing doubled: the client saw one stream");
  if (o.json) out << ReportJson(result).dump() << "\n" << std::flush;
}

void StayUp(const Cluster& cluster, const std::string& folder, Narrator& narrator) {
  narrator.Step("Still running (--keep); Ctrl-C ends it");
  narrator.Block(KeyValues({{"coordinator", cluster.coordinator()},
                            {"worker a", cluster.worker(0)},
                            {"worker b", cluster.worker(1)},
                            {"logs", folder}}));
  while (!Interrupted()) absl::SleepFor(absl::Milliseconds(100));
}

absl::StatusOr<int> Run(const DemoOptions& o, const WorkFolder& work, std::ostream& out, Narrator& narrator,
                        const Clock& clock) {
  ASSIGN_OR_RETURN(std::string predictors, EnsurePredictors(o, work.path(), narrator));
  narrator.Step(fmt::format("A coordinator and {} workers, one engine thread each, start as processes", o.link_mbit > 0 ? "three" : "two"));
  Cluster cluster(o, work.path(), predictors);
  RETURN_IF_ERROR(cluster.Start());
  RETURN_IF_ERROR(cluster.AwaitServing(absl::Seconds(60)));
  narrator.Line(fmt::format("coordinator {}, worker a {}, worker b {}", cluster.coordinator(),
                            cluster.worker(0), cluster.worker(1)));
  ASSIGN_OR_RETURN(DemoResult result, Play(o, cluster, narrator, clock));
  Verdicts verdicts = Judge(result);
  Conclude(result, verdicts, o, out, narrator);
  if (o.keep) StayUp(cluster, work.path(), narrator);
  return ExitCodeFor(verdicts);
}

}  // namespace

int RunDemo(const DemoOptions& options, std::ostream& out, std::ostream& err, const Clock& clock) {
  CatchInterrupts();
  Narrator narrator(options.json ? err : out, /*streams_text=*/!options.json);
  absl::StatusOr<WorkFolder> work = WorkFolder::Create(options.work);
  absl::StatusOr<int> code = work.ok() ? Run(options, *work, out, narrator, clock) : work.status();
  if (!code.ok()) {
    PrintError(options.json ? out : err, code.status(), options.json);
    if (work.ok()) err << fmt::format("logs are in {}\n", work->path());
    return ExitCodeFor(code.status());
  }
  if (*code == kExitOk && !options.keep) {
    work->Remove();
  } else {
    err << fmt::format("logs are in {}\n", work->path());
  }
  return *code;
}

}  // namespace riskkv::cli
