#include "common/store/sqlite_store.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/store/test_records.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class SqliteStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "riskkv-sqlite-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/store.db";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // Plain SQL beside the store, which must be closed.
  void Sql(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  // What SQLite itself finds wrong with the file, which must be closed: "ok".
  std::string IntegrityCheck() {
    sqlite3* db = nullptr;
    std::string found;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    auto collect = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) += values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, "PRAGMA integrity_check", collect, &found, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
    return found;
  }

  std::string folder_, path_;
};

TEST_F(SqliteStoreTest, ASecondOpenerIsRefusedNamingTheFile) {
  auto first = SqliteStore::Open({.path = path_});
  ASSERT_OK(first);
  auto second = SqliteStore::Open({.path = path_});
  EXPECT_THAT(second, HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path_)));
  first->reset();
  EXPECT_OK(SqliteStore::Open({.path = path_}));
}

TEST_F(SqliteStoreTest, ASecondProcessIsRefused) {
  auto first = SqliteStore::Open({.path = path_});
  ASSERT_OK(first);
  pid_t child = fork();
  if (child == 0) _exit(ReasonOf(SqliteStore::Open({.path = path_}).status()) == "STORE_UNAVAILABLE" ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_OK((*first)->Commit({.owner = TestOwner("r")}));
}

TEST_F(SqliteStoreTest, AFullDiskIsTypedAndChangesNothing) {
  auto store = SqliteStore::Open({.path = path_, .max_pages = 24});
  ASSERT_OK(store);
  ASSERT_OK((*store)->Commit({.owner = TestOwner("first")}));
  absl::Status full;
  int written = 0;
  for (int i = 0; i < 1000 && full.ok(); ++i) {
    JobRecord job = TestJob("m" + std::to_string(i), "r");
    job.spec.reason = std::string(2000, 'x');
    full = (*store)->Commit({.job = job}).status();
    written += full.ok();
  }
  EXPECT_THAT(full, HasReason("DISK_FULL"));
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(path_)));
  EXPECT_EQ((*store)->ListJobs({}).value().size(), static_cast<std::size_t>(written));
  EXPECT_OK((*store)->GetOwner("first"));
}

TEST_F(SqliteStoreTest, CorruptRecordsAreNamed) {
  {
    auto store = SqliteStore::Open({.path = path_});
    ASSERT_OK(store);
    ASSERT_OK((*store)->Commit({.owner = TestOwner("req-7"), .job = TestJob("mig-7", "req-7")}));
  }
  Sql("UPDATE owners SET body = substr(body, 1, 20); UPDATE jobs SET body = '{}'");
  auto store = SqliteStore::Open({.path = path_});
  ASSERT_OK(store);
  EXPECT_THAT((*store)->GetOwner("req-7"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("req-7")));
  EXPECT_THAT((*store)->GetJob("mig-7"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mig-7")));
  EXPECT_THAT((*store)->ListJobs({}), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mig-7")));
}

TEST_F(SqliteStoreTest, WhatIsNoStoreIsRefusedNamingTheFile) {
  std::ofstream(path_) << std::string(8192, 'z');
  EXPECT_THAT(SqliteStore::Open({.path = path_}), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
  EXPECT_THAT(SqliteStore::Open({.path = folder_}), HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(SqliteStore::Open({.path = folder_ + "/no/such/folder.db"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no/such/folder.db")));
}

TEST_F(SqliteStoreTest, ANewerSchemaIsRefused) {
  ASSERT_OK(SqliteStore::Open({.path = path_}));
  Sql("PRAGMA user_version = 99");
  EXPECT_THAT(SqliteStore::Open({.path = path_}), HasReason("PROTOCOL_VERSION"));
}

TEST_F(SqliteStoreTest, UnknownSpecs) {
  EXPECT_THAT(OpenStore("redis:x"), HasReason("BAD_ARGUMENT"));
  EXPECT_THAT(OpenStore("sqlite:"), HasReason("BAD_ARGUMENT"));
}

// Writes owner and job in step, and says so after each commit, until it is killed.
[[noreturn]] void WriteUntilKilled(const std::string& path, int out) {
  auto store = SqliteStore::Open({.path = path});
  if (!store.ok()) _exit(3);
  OwnerRecord owner = (*store)->GetOwner("r").value_or(TestOwner("r", 0));
  JobRecord job = (*store)->GetJob("m").value_or(TestJob("m", "r"));
  for (;;) {
    ++owner.epoch;
    job.spec.expected_epoch = owner.epoch;
    job.spec.reason = std::string(owner.epoch % 5000, 'x');
    auto written = (*store)->Commit({.owner = owner, .job = job});
    if (!written.ok()) _exit(4);
    owner.revision = written->owner;
    job.revision = written->job;
    if (write(out, &owner.epoch, sizeof(owner.epoch)) != sizeof(owner.epoch)) _exit(5);
  }
}

TEST_F(SqliteStoreTest, KillNineInALoopLeavesAConsistentStore) {
  std::mt19937 random(7);
  uint64_t acknowledged = 0;
  for (int round = 0; round < 20; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
      close(pipe_ends[0]);
      WriteUntilKilled(path_, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    uint64_t epoch = 0;
    ASSERT_EQ(read(pipe_ends[0], &epoch, sizeof(epoch)), static_cast<ssize_t>(sizeof(epoch)));
    acknowledged = epoch;
    usleep(1000 + random() % 20000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    while (read(pipe_ends[0], &epoch, sizeof(epoch)) == sizeof(epoch)) acknowledged = epoch;
    close(pipe_ends[0]);
    ASSERT_EQ(IntegrityCheck(), "ok");
    auto store = SqliteStore::Open({.path = path_});
    ASSERT_OK(store);
    ASSERT_OK_AND_ASSIGN(OwnerRecord owner, (*store)->GetOwner("r"));
    ASSERT_OK_AND_ASSIGN(JobRecord job, (*store)->GetJob("m"));
    EXPECT_EQ(owner.epoch, job.spec.expected_epoch);
    EXPECT_GE(owner.epoch, acknowledged);      // what was acknowledged is there
    EXPECT_LE(owner.epoch, acknowledged + 1);  // and at most the one under way
  }
  EXPECT_GT(acknowledged, 20u);
}

}  // namespace
}  // namespace riskkv
