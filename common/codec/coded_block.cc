#include "common/codec/coded_block.h"

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr uint32_t kMagic = 0x31434b52;  // "RKC1"
constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kChecksumAt = 32;
constexpr std::size_t kUnitBytes = 8;
constexpr int64_t kLastPosition = int64_t{1} << 31;

template <typename T>
void Put(T value, std::string& out) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

template <typename T>
T GetNumber(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

// Of all bytes but the checksum's own.
uint64_t Checksum(std::string_view bytes) {
  const uint64_t parts[] = {Xxh3(bytes.data(), kChecksumAt),
                            Xxh3(bytes.data() + kHeaderBytes, bytes.size() - kHeaderBytes)};
  return Xxh3(parts, sizeof(parts));
}

absl::Status CorruptBlock(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("coded block: {}", what));
}

absl::Status CheckHeader(std::string_view bytes, std::size_t units) {
  if (bytes.size() < CodedBlockOverhead(units)) {
    return CorruptBlock(
        fmt::format("truncated: {} bytes, the header has {}", bytes.size(), CodedBlockOverhead(units)));
  }
  const uint32_t magic = GetNumber<uint32_t>(bytes, 0);
  if (magic != kMagic) return CorruptBlock(fmt::format("begins with {:#x}, not {:#x}", magic, kMagic));
  const uint64_t stated = GetNumber<uint64_t>(bytes, kChecksumAt), computed = Checksum(bytes);
  if (stated != computed)
    return CorruptBlock(fmt::format("checksum differs: it states {:#x}, its bytes have {:#x}", stated, computed));
  const uint32_t found = GetNumber<uint32_t>(bytes, 4), tokens = GetNumber<uint32_t>(bytes, 16);
  if (found != units) return CorruptBlock(fmt::format("{} units, the set has {}", found, units));
  if (tokens == 0 || tokens > kCodedBlockTokens)
    return CorruptBlock(fmt::format("{} tokens (1 to {})", tokens, kCodedBlockTokens));
  const uint64_t begin = GetNumber<uint64_t>(bytes, 8);
  if (begin >= static_cast<uint64_t>(kLastPosition)) return CorruptBlock(fmt::format("begins at position {}", begin));
  const uint32_t payload = GetNumber<uint32_t>(bytes, 20);
  if (payload != bytes.size() - CodedBlockOverhead(units)) {
    return CorruptBlock(fmt::format("states {} bytes of payload and has {}", payload,
                                    bytes.size() - CodedBlockOverhead(units)));
  }
  return absl::OkStatus();
}

}  // namespace

std::size_t CodedBlockOverhead(std::size_t units) { return kHeaderBytes + units * kUnitBytes; }

std::string WriteCodedBlock(const CodedBlockHeader& header, const std::vector<CodedChunk>& units) {
  std::size_t payload = 0;
  for (const CodedChunk& u : units) payload += u.words.size() + u.bits.size();
  std::string out;
  out.reserve(CodedBlockOverhead(units.size()) + payload);
  Put<uint32_t>(kMagic, out);
  Put<uint32_t>(static_cast<uint32_t>(units.size()), out);
  Put<uint64_t>(static_cast<uint64_t>(header.range.begin), out);
  Put<uint32_t>(static_cast<uint32_t>(header.range.size()), out);
  Put<uint32_t>(static_cast<uint32_t>(payload), out);
  Put<uint64_t>(header.context, out);
  Put<uint64_t>(0, out);
  for (const CodedChunk& u : units) {
    Put<uint32_t>(static_cast<uint32_t>(u.words.size()), out);
    Put<uint32_t>(static_cast<uint32_t>(u.bits.size()), out);
  }
  for (const CodedChunk& u : units) out.append(u.words).append(u.bits);
  StampChecksum(out);
  return out;
}

void StampChecksum(std::string& block) {
  if (block.size() < kHeaderBytes) return;
  std::string checksum;
  Put<uint64_t>(Checksum(block), checksum);
  block.replace(kChecksumAt, checksum.size(), checksum);
}

absl::StatusOr<CodedBlockView> ReadCodedBlock(std::string_view bytes, std::size_t units) {
  RETURN_IF_ERROR(CheckHeader(bytes, units));
  CodedBlockView view;
  view.header.range.begin = static_cast<int64_t>(GetNumber<uint64_t>(bytes, 8));
  view.header.range.end = view.header.range.begin + GetNumber<uint32_t>(bytes, 16);
  view.header.context = GetNumber<uint64_t>(bytes, 24);
  std::string_view rest = bytes.substr(CodedBlockOverhead(units));
  auto take = [&rest](std::size_t n, std::string_view* part) {
    if (n > rest.size()) return false;
    *part = rest.substr(0, n);
    rest.remove_prefix(n);
    return true;
  };
  for (std::size_t u = 0; u < units; ++u) {
    const std::size_t at = kHeaderBytes + u * kUnitBytes;
    CodedBlockView::Unit unit;
    if (!take(GetNumber<uint32_t>(bytes, at), &unit.words) || !take(GetNumber<uint32_t>(bytes, at + 4), &unit.bits))
      return CorruptBlock(fmt::format("unit {} is longer than the payload", u));
    view.units.push_back(unit);
  }
  if (!rest.empty()) return CorruptBlock(fmt::format("{} bytes after the last unit", rest.size()));
  return view;
}

}  // namespace riskkv
