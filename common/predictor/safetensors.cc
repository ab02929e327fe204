#include "common/predictor/safetensors.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlign = 64;
constexpr std::size_t kMaxHeader = 100u << 20;  // the limit of the Python library

int64_t ElementBytes(const std::string& dtype) { return dtype == "F32" ? 4 : dtype == "F16" ? 2 : dtype == "I8" ? 1 : 0; }

// Elements of a shape; -1 when negative or beyond what an address can hold.
int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || (d > 0 && n > std::numeric_limits<int64_t>::max() / 8 / d)) return -1;
    n *= d;
  }
  return n;
}

absl::StatusOr<TensorView> ReadTensor(const std::string& name, const nlohmann::json& j,
                                      std::string_view data) {
  TensorView tensor;
  tensor.dtype = j.at("dtype").get<std::string>();
  tensor.shape = j.at("shape").get<std::vector<int64_t>>();
  const auto offsets = j.at("data_offsets").get<std::vector<uint64_t>>();
  if (offsets.size() != 2)
    return CorruptFile(fmt::format("tensor {}: data_offsets has {} numbers", name, offsets.size()));
  const uint64_t begin = offsets[0], end = offsets[1];
  if (begin > end || end > data.size()) {
    return CorruptFile(fmt::format("truncated: tensor {} ends at byte {} of the data, the file has {}", name, end,
                               data.size()));
  }
  const int64_t element = ElementBytes(tensor.dtype);
  if (element == 0) return CorruptFile(fmt::format("tensor {}: unknown type {}", name, tensor.dtype));
  const int64_t count = ElementCount(tensor.shape);
  if (count < 0 || static_cast<uint64_t>(count) * static_cast<uint64_t>(element) != end - begin) {
    return CorruptFile(
        fmt::format("tensor {}: {} bytes do not fit its shape of {} elements", name, end - begin, count));
  }
  tensor.data = data.substr(begin, end - begin);
  return tensor;
}

// Every byte of the data belongs to exactly one tensor.
absl::Status CheckCover(const Safetensors& file) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (const auto& [name, t] : file.tensors) {
    spans.emplace_back(static_cast<std::size_t>(t.data.data() - file.data.data()), t.data.size());
  }
  std::sort(spans.begin(), spans.end());
  std::size_t at = 0;
  for (const auto& [begin, size] : spans) {
    if (begin != at)
      return CorruptFile(fmt::format("tensor data has a hole or an overlap at byte {}", std::min(at, begin)));
    at = begin + size;
  }
  if (at != file.data.size()) {
    return CorruptFile(fmt::format("tensors cover {} bytes, the file has {}", at, file.data.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Safetensors> ReadHeader(std::string_view header, std::string_view data) {
  Safetensors file;
  file.header = header;
  file.data = data;
  try {
    const nlohmann::json j = nlohmann::json::parse(header);
    if (!j.is_object()) return CorruptFile("the header is not a JSON object");
    for (const auto& [name, value] : j.items()) {
      if (name == "__metadata__") {
        file.metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      ASSIGN_OR_RETURN(TensorView tensor, ReadTensor(name, value, data));
      file.tensors.emplace(name, std::move(tensor));
    }
  } catch (const nlohmann::json::exception& e) {
    return CorruptFile(fmt::format("bad header: {}", e.what()));
  }
  return file;
}

}  // namespace

absl::Status CorruptFile(std::string_view message) {
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", message);
}

absl::StatusOr<Safetensors> ParseSafetensors(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) {
    return CorruptFile(fmt::format("truncated: {} bytes, a header length needs {}", bytes.size(), kLengthBytes));
  }
  uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  if (length > kMaxHeader)
    return CorruptFile(fmt::format("a header of {} bytes (at most {})", length, kMaxHeader));
  if (length > bytes.size() - kLengthBytes) {
    return CorruptFile(fmt::format("truncated: the header has {} bytes, the file {} after its length", length,
                               bytes.size() - kLengthBytes));
  }
  ASSIGN_OR_RETURN(Safetensors file,
                   ReadHeader(bytes.substr(kLengthBytes, length), bytes.substr(kLengthBytes + length)));
  RETURN_IF_ERROR(CheckCover(file));
  return file;
}

std::string WriteSafetensors(const std::map<std::string, std::string>& metadata,
                             const std::map<std::string, TensorView>& tensors) {
  nlohmann::json header = {{"__metadata__", metadata}};
  std::size_t at = 0;
  for (const auto& [name, t] : tensors) {
    header[name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, at + t.data.size()}}};
    at += t.data.size();
  }
  std::string text = header.dump();
  while ((kLengthBytes + text.size()) % kAlign != 0) text += ' ';
  std::string out;
  out.reserve(kLengthBytes + text.size() + at);
  for (std::size_t i = 0; i < kLengthBytes; ++i) out += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  out += text;
  for (const auto& [name, t] : tensors) out += t.data;
  return out;
}

}  // namespace riskkv
