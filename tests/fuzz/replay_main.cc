// Without libFuzzer: every corpus file as it is, cut short, and with deterministic mutations.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int kMutationsPerFile = 2000;

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

Bytes Mutate(const Bytes& seed, std::mt19937& random) {
  Bytes out = seed;
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !out.empty(); ++i) {
    const std::size_t at = random() % out.size();
    switch (random() % 4) {
      case 0: out[at] ^= static_cast<uint8_t>(1u << (random() % 8)); break;
      case 1: out[at] = static_cast<uint8_t>(random()); break;
      case 2: out.resize(at); break;
      default: out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), static_cast<uint8_t>(random())); break;
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  long runs = 0;
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const Bytes seed = ReadFile(entry.path());
      std::mt19937 random(12345u + static_cast<unsigned>(files++));
      LLVMFuzzerTestOneInput(seed.data(), seed.size());
      for (int k = 0; k < kMutationsPerFile; ++k, ++runs) {
        const Bytes mutated = Mutate(seed, random);
        LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
      }
    }
  }
  std::printf("%d corpus files, %ld mutations, no crash\n", files, runs);
  return files > 0 ? 0 : 1;  // an empty corpus tests nothing
}
