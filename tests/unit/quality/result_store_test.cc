#include "common/quality/result_store.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

namespace fs = std::filesystem;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class FolderStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  // Of this test alone: others run beside it in processes of their own.
  const std::string folder_ =
      ::testing::TempDir() + "result-store-" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/deep";
};

TEST_F(FolderStoreTest, KeepsPartsForTheNextProcess) {
  const std::string_view parts[] = {"one", "", "three"};
  {
    ASSERT_OK_AND_ASSIGN(const auto store, FolderStore::Open(folder_));
    ASSERT_OK(store->Put("k", parts));
    ASSERT_OK(store->Put("empty", std::string_view()));
    EXPECT_THAT(store->Get("other"), StatusIs(absl::StatusCode::kNotFound));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, FolderStore::Open(folder_));
  ASSERT_OK_AND_ASSIGN(const std::string read, store->Get("k"));
  EXPECT_EQ(read, "onethree");
  ASSERT_OK_AND_ASSIGN(const std::string empty, store->Get("empty"));
  EXPECT_EQ(empty, "");
  ASSERT_OK(store->Put("k", "new"));
  EXPECT_EQ(store->Get("k").value(), "new");
}

// A kill leaves whole files and temporary ones: a result is whole or not there, and the next Open tidies.
TEST_F(FolderStoreTest, WhatIsNotWholeIsNotThere) {
  std::string path, bytes;
  {
    ASSERT_OK_AND_ASSIGN(const auto store, FolderStore::Open(folder_));
    ASSERT_OK(store->Put("k", std::string(1000, 'x')));
    std::ofstream(folder_ + "/half.part") << "half";
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".result") path = entry.path();
    }
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_OK_AND_ASSIGN(const auto store, FolderStore::Open(folder_));
  EXPECT_FALSE(fs::exists(folder_ + "/half.part"));
  for (std::size_t n = 0; n < bytes.size(); n += 37) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.substr(0, n);
    EXPECT_THAT(store->Get("k"), StatusIs(absl::StatusCode::kNotFound)) << n;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_THAT(store->Get("k"), StatusIs(absl::StatusCode::kNotFound)) << at;
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_OK(store->Get("k"));
}

TEST_F(FolderStoreTest, OneProcessAtATime) {
  ASSERT_OK_AND_ASSIGN(auto store, FolderStore::Open(folder_));
  EXPECT_THAT(FolderStore::Open(folder_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use")));
  store.reset();
  EXPECT_OK(FolderStore::Open(folder_));
}

TEST(ScratchStore, HasNoNameAndReplacesValues) {
  const std::string parent = ::testing::TempDir() + "scratch";
  fs::create_directories(parent);
  ASSERT_OK_AND_ASSIGN(const auto store, ScratchStore::Create(parent));
  EXPECT_TRUE(fs::is_empty(parent)) << "a kill would leave it behind";
  ASSERT_OK(store->Put("a", "first"));
  ASSERT_OK(store->Put("b", "second"));
  ASSERT_OK(store->Put("a", "a longer first"));
  ASSERT_OK(store->Put("b", "2"));
  EXPECT_EQ(store->Get("a").value(), "a longer first");
  EXPECT_EQ(store->Get("b").value(), "2");
  EXPECT_THAT(store->Get("c"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(ScratchStore::Create(parent + "/none").ok());
}

TEST(ResultStore, CellsAndFloatsComeBackAsTheyWere) {
  KvLayout layout;
  layout.n_layer = 2, layout.n_head_kv = 1, layout.head_dim = 2;
  KvBlock block = KvBlock::Make(layout, {0, 3}, {0, 1});
  for (std::size_t i = 0; i < block.data.size(); ++i) block.data[i] = static_cast<uint16_t>(i * 257);
  ASSERT_OK_AND_ASSIGN(const auto store, OpenResultStore("", ""));
  EXPECT_FALSE(store->persistent());
  ASSERT_OK(PutCells(*store, "a", layout, block));
  ASSERT_OK_AND_ASSIGN(const KvBlock read, GetCells(*store, "a", layout));
  EXPECT_EQ(read.data, block.data);
  EXPECT_EQ(read.range, block.range);
  const std::vector<float> floats = {1.5f, -0.0f, 3e-9f};
  ASSERT_OK(PutFloats(*store, "f", floats));
  EXPECT_EQ(GetFloats(*store, "f", 3).value(), floats);
  EXPECT_FALSE(GetFloats(*store, "f", 2).ok());
  EXPECT_FALSE(GetCells(*store, "f", layout).ok()) << "12 bytes are no whole token";
}

TEST(ResultKey, IsAFileNameThatDependsOnEverything) {
  EXPECT_EQ(ResultKey("nll", "x"), ResultKey("nll", "x"));
  EXPECT_NE(ResultKey("nll", "x"), ResultKey("nll", "y"));
  EXPECT_EQ(ResultKey("nll", "a/b").find('/'), std::string::npos);
}

}  // namespace
}  // namespace riskkv
