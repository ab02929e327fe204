#include "common/store/memory_store.h"
#include "common/store/sqlite_store.h"
#include "tests/unit/store/etcd_fixture.h"
#include "tests/unit/store/store_conformance.h"

namespace riskkv {
namespace {

std::unique_ptr<Store> OpenSqlite(const std::string& folder) {
  return OpenStore("sqlite:" + folder + "/store.db").value();
}

// etcd's core; the fake lives as long as the test's folder is the same.
std::unique_ptr<Store> OpenOverFakeEtcd(const std::string& folder) {
  static const RealClock clock{};
  static std::string last_folder;
  static std::shared_ptr<testing::FakeEtcd> etcd;
  if (folder != last_folder) etcd = std::make_shared<testing::FakeEtcd>(&clock);
  last_folder = folder;
  return LeadingStore(etcd, &clock, "one", nullptr, /*renew=*/true);
}

const StoreKind kKinds[] = {
    {.name = "memory", .open = [](const std::string&) -> std::unique_ptr<Store> { return std::make_unique<MemoryStore>(); }},
    {.name = "sqlite", .durable = true, .open = OpenSqlite},
    {.name = "etcd_core", .durable = true, .open = OpenOverFakeEtcd},
};

INSTANTIATE_TEST_SUITE_P(All, StoreConformance, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace riskkv
