// A coded block comes from a peer: any bytes must give an error or finite cells of the size they state. The
// checksum is made right first, so that what lies behind it is reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/fp16.h"
#include "tests/fuzz/coded_block_seed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const codec = riskkv::CodedBlockSeed().release();
  static const auto* const policy = new riskkv::CodedPolicy(*codec->MakePolicy(riskkv::kCodedSeedStep));
  static auto* const scratch = new riskkv::CodecScratch;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)codec->Decode(*policy, bytes, *scratch);
  riskkv::StampChecksum(bytes);
  const auto cells = codec->Decode(*policy, bytes, *scratch);
  if (!cells.ok()) return 0;
  const bool whole = riskkv::CheckBlock(codec->layout(), *cells).ok();
  if (!whole || !riskkv::kernels::AllFinite(cells->data.data(), cells->data.size())) std::abort();
  return 0;
}
