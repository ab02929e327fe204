#include "common/engine/llama/state_format.h"

#include <cstring>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr uint32_t kMagic = 0xaf143cd8;
constexpr int32_t kTypeF16 = 1;          // GGML_TYPE_F16
constexpr std::size_t kHead = 16;        // magic, sequence, streams, cells
constexpr std::size_t kCell = 12;        // position, number of sequences, sequence
constexpr std::size_t kBody = 8;         // v_trans, layers
constexpr std::size_t kTensorHead = 12;  // type, row bytes

std::size_t RowBytes(const KvLayout& layout) {
  return static_cast<std::size_t>(layout.kv()) * sizeof(uint16_t);
}

// A reader that cannot pass the end: what is missing reads as zero and ok() turns false.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value{};
    const uint8_t* from = Skip(sizeof(T));
    if (from != nullptr) std::memcpy(&value, from, sizeof(T));
    return value;
  }
  const uint8_t* Skip(std::size_t n) {
    if (!ok_ || n > bytes_.size() - at_) {
      ok_ = false;
      return nullptr;
    }
    const uint8_t* here = bytes_.data() + at_;
    at_ += n;
    return here;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == bytes_.size(); }

 private:
  std::span<const uint8_t> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

class Writer {
 public:
  explicit Writer(uint8_t* to) : to_(to) {}
  template <typename T>
  void Put(T value) {
    Put(&value, sizeof(T));
  }
  void Put(const void* from, std::size_t n) {
    if (n > 0) std::memcpy(to_, from, n);
    to_ += n;
  }

 private:
  uint8_t* to_;
};

template <typename T>
absl::Status Expect(std::string_view what, T got, T want) {
  if (got == want) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("llama.cpp's sequence state: {} is {}, expected {}", what, got, want));
}

// Rows of the state in position order: rows[i] is the row that holds position range.begin + i.
absl::StatusOr<std::vector<std::size_t>> ReadCells(Reader& in, TokenRange range) {
  const std::size_t n = static_cast<std::size_t>(range.size());
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> rows(n, kNone);
  for (std::size_t row = 0; row < n; ++row) {
    const int32_t position = in.Get<int32_t>();
    const uint32_t sequences = in.Get<uint32_t>();
    in.Get<int32_t>();
    if (!in.ok()) return absl::InternalError("llama.cpp's sequence state ends among its cells");
    RETURN_IF_ERROR(Expect<uint32_t>("the number of sequences of a cell", sequences, 1));
    if (position < range.begin || position >= range.end) {
      return absl::InternalError(fmt::format("llama.cpp's sequence state holds position {}, outside [{}, {})",
                                             position, range.begin, range.end));
    }
    std::size_t& slot = rows[static_cast<std::size_t>(position - range.begin)];
    if (slot != kNone)
      return absl::InternalError(fmt::format("llama.cpp's sequence state holds position {} twice", position));
    slot = row;
  }
  return rows;
}

// One tensor's rows into `to` (nullptr: skipped). Runs of consecutive rows are copied at once.
absl::Status ReadTensor(Reader& in, std::size_t row_bytes, const std::vector<std::size_t>& rows,
                        uint16_t* to) {
  RETURN_IF_ERROR(Expect<int32_t>("the cache type", in.Get<int32_t>(), kTypeF16));
  RETURN_IF_ERROR(Expect<uint64_t>("the row size", in.Get<uint64_t>(), row_bytes));
  const uint8_t* from = in.Skip(rows.size() * row_bytes);
  if (from == nullptr) return absl::InternalError("llama.cpp's sequence state ends among its rows");
  if (to == nullptr) return absl::OkStatus();
  uint8_t* out = reinterpret_cast<uint8_t*>(to);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t n = 1;
    while (i + n < rows.size() && rows[i + n] == rows[i] + n) ++n;
    std::memcpy(out + i * row_bytes, from + rows[i] * row_bytes, n * row_bytes);
    i += n;
  }
  return absl::OkStatus();
}

}  // namespace

std::size_t LlamaStateSize(const KvLayout& layout, int64_t cells) {
  const std::size_t n = static_cast<std::size_t>(cells);
  return kHead + n * kCell + kBody +
         static_cast<std::size_t>(layout.n_layer) * 2 * (kTensorHead + n * RowBytes(layout));
}

absl::Status ReadLlamaState(std::span<const uint8_t> state, const KvLayout& layout, TokenRange range,
                            KvBlock& block) {
  if (range.empty() || range.begin < block.range.begin || range.end > block.range.end ||
      block.kv != layout.kv()) {
    return absl::InternalError("the block does not hold the positions to be read");
  }
  RETURN_IF_ERROR(Expect<std::size_t>("its size", state.size(), LlamaStateSize(layout, range.size())));
  Reader in(state);
  RETURN_IF_ERROR(Expect<uint32_t>("the magic", in.Get<uint32_t>(), kMagic));
  in.Get<int32_t>();
  RETURN_IF_ERROR(Expect<uint32_t>("the number of streams", in.Get<uint32_t>(), 1));
  RETURN_IF_ERROR(Expect<int64_t>("the number of cells", in.Get<uint32_t>(), range.size()));
  ASSIGN_OR_RETURN(const std::vector<std::size_t> rows, ReadCells(in, range));
  RETURN_IF_ERROR(Expect<uint32_t>("v_trans", in.Get<uint32_t>(), 0));
  RETURN_IF_ERROR(Expect<int64_t>("the number of layers", in.Get<uint32_t>(), layout.n_layer));
  const std::size_t skip = static_cast<std::size_t>(range.begin - block.range.begin) * block.kv;
  for (int part = 0; part < 2; ++part) {
    for (int layer = 0; layer < layout.n_layer; ++layer) {
      const int i = block.IndexOf(layer);
      uint16_t* to = i < 0 ? nullptr : (part == 0 ? block.k(i) : block.v(i)) + skip;
      RETURN_IF_ERROR(ReadTensor(in, RowBytes(layout), rows, to));
    }
  }
  return in.at_end() ? absl::OkStatus()
                     : absl::InternalError("llama.cpp's sequence state goes on after its end");
}

void WriteLlamaState(const KvLayout& layout, const KvBlock& block, TokenRange range,
                     std::vector<uint8_t>& state) {
  state.resize(LlamaStateSize(layout, range.size()));
  Writer out(state.data());
  out.Put<uint32_t>(kMagic);
  out.Put<int32_t>(0);
  out.Put<uint32_t>(1);
  out.Put<uint32_t>(static_cast<uint32_t>(range.size()));
  for (int64_t p = range.begin; p < range.end; ++p) {
    out.Put<int32_t>(static_cast<int32_t>(p));
    out.Put<uint32_t>(1);
    out.Put<int32_t>(0);
  }
  out.Put<uint32_t>(0);
  out.Put<uint32_t>(static_cast<uint32_t>(layout.n_layer));
  const std::size_t skip = static_cast<std::size_t>(range.begin - block.range.begin) * block.kv;
  for (int part = 0; part < 2; ++part) {
    for (int layer = 0; layer < layout.n_layer; ++layer) {
      out.Put<int32_t>(kTypeF16);
      out.Put<uint64_t>(RowBytes(layout));
      const uint16_t* rows = (part == 0 ? block.k(layer) : block.v(layer)) + skip;
      out.Put(rows, static_cast<std::size_t>(range.size()) * RowBytes(layout));
    }
  }
}

}  // namespace riskkv
