// Identifiers: random, hexadecimal, from the system's generator.
#ifndef RISKKV_COMMON_BASE_IDS_H_
#define RISKKV_COMMON_BASE_IDS_H_

#include <string>

namespace riskkv {

// 2*bytes hexadecimal digits of a cryptographically random number.
std::string RandomHex(int bytes);
// A boot id: new at every start of a process, never reused, so that a restarted worker is another one.
inline std::string NewBootId() { return RandomHex(8); }
// Request ids are minted by the admitting worker and contain its boot id (protocol.md, 1): "<boot>-<16 hex>".
inline std::string NewRequestId(const std::string& boot_id) { return boot_id + "-" + RandomHex(8); }

}  // namespace riskkv

#endif  // RISKKV_COMMON_BASE_IDS_H_
