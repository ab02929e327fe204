#include "common/base/ids.h"

#include <openssl/rand.h>

#include <cstdlib>
#include <vector>

#include "fmt/format.h"

namespace riskkv {

std::string RandomHex(int bytes) {
  std::vector<unsigned char> raw(static_cast<std::size_t>(bytes));
  // Without randomness ids could repeat and fencing would be void: stop instead.
  if (RAND_bytes(raw.data(), bytes) != 1) std::abort();
  std::string hex;
  for (unsigned char c : raw) hex += fmt::format("{:02x}", c);
  return hex;
}

}  // namespace riskkv
