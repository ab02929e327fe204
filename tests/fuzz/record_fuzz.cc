// Owner and job records come back from a store: any text must give an error or a record that serialises again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/migration/record_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto owner = riskkv::ParseOwnerRecord(text, "fuzz"); owner.ok()) {
    if (!riskkv::ParseOwnerRecord(riskkv::Serialise(*owner), "again").ok()) std::abort();
  }
  if (auto job = riskkv::ParseJobRecord(text, "fuzz"); job.ok()) {
    if (!riskkv::ParseJobRecord(riskkv::Serialise(*job), "again").ok()) std::abort();
  }
  return 0;
}
