// One cell of the fault matrix: a move of a running request, a fault at one state of the protocol, and what must hold afterwards.
#ifndef RISKKV_TESTS_FAULTS_CELL_H_
#define RISKKV_TESTS_FAULTS_CELL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/cluster.h"

namespace riskkv::faults {

struct CellSpec {
  std::string state;  // as in protocol.md, 2: "ACCEPTED" ... "RESUMED"; or "START": from the beginning on
  std::string fault;
  Mode mode = Mode::kFull;
  std::string Name() const;
};

struct CellResult {
  CellSpec spec;
  bool reached = false;  // the state, before the job ended
  std::string outcome;   // the job's end and its reason
  double ms = 0;
  // How long the client's stream took to end once it was cancelled (in the end every cell's is), and the migration's once its caller
  // had cancelled it; below zero: it was not, or had ended.
  double cancel_ms = -1;
  bool cancelled_by_worker = false;  // the stream's end came from a worker, not from the client's giving up
  double cancel_job_ms = -1;
  std::vector<std::string> violations;
  std::string text;      // how it came about, of a cell that failed
  bool ok() const { return violations.empty(); }
};

// Every state with every fault, and every message with every trouble.
std::vector<CellSpec> AllCells();
// How long what must happen is waited for.
inline constexpr absl::Duration kPatience = absl::Seconds(15);
CellResult RunCell(const CellSpec& spec, absl::Duration patience = kPatience);

// A move under way and whoever takes part. A fault gets it on the thread that reached the state.
class Scene {
 public:
  explicit Scene(absl::Duration patience = kPatience, const Times& times = {}) : cluster(times), patience_(patience) {}
  ~Scene();

  // Admits the request on `a`, attaches the client, and waits for its first tokens.
  void Begin();
  absl::Status StartJob(const std::string& migration_id, Mode mode, uint64_t epoch, const std::string& destination, absl::Duration deadline);
  // A client that remembers nothing takes the dead one's place.
  void ReplaceClient();
  std::shared_ptr<Client> TheClient();
  // Runs `action` on the cluster's thread, and waits for it.
  void Order(std::function<void()> action);
  // The job's record as it is durable.
  absl::StatusOr<JobRecord> Record(const std::string& migration_id) { return cluster.disk.store.GetJob(migration_id); }

  // After everything was healed: the request goes on, its client gets every token once, everything is given back, and both workers
  // serve. Adds what does not hold.
  void CheckAfter(const std::string& migration_id, std::vector<std::string>& violations);

  // Of the migration, by its caller; the time of the answer counts.
  void CancelMigration();

  Cluster cluster;
  std::string request_id;
  std::string migration_id;
  std::atomic<int64_t> job_cancelled_us{0};  // when; 0: it was not, or it had moved already

 private:
  void CheckClient(std::vector<std::string>& violations);
  void CheckRecord(const std::string& migration_id, std::vector<std::string>& violations);
  void CheckServes(const std::string& id, std::vector<std::string>& violations);

  const absl::Duration patience_;
  Mutex mu_;
  std::shared_ptr<Client> client_ ABSL_GUARDED_BY(mu_);
};

inline constexpr int kPrompt = 300;
inline constexpr int kMaxTokens = 3000;
std::vector<Token> ThePrompt();
// The output of a run that never moved.
const std::vector<Token>& Oracle();

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_CELL_H_
