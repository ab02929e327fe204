#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "kernels/tests/check.h"

namespace riskkv::kernels::test {
namespace {

struct Case {
  const char* name;
  void (*body)();
};

std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

enum class Outcome { kPassed, kFailed, kSkipped };

Outcome RunCase(const Case& test) {
  std::printf("[ RUN  ] %s\n", test.name);
  std::fflush(stdout);
  try {
    test.body();
    std::printf("[ OK   ] %s\n", test.name);
    return Outcome::kPassed;
  } catch (const Skipped& skipped) {
    std::printf("[ SKIP ] %s: %s\n", test.name, skipped.what());
    return Outcome::kSkipped;
  } catch (const std::exception& failure) {
    std::printf("[ FAIL ] %s: %s\n", test.name, failure.what());
    return Outcome::kFailed;
  }
}

}  // namespace

int Register(const char* name, void (*body)()) {
  Cases().push_back({name, body});
  return 0;
}

void Note(const std::string& text) { std::printf("         %s\n", text.c_str()); }

}  // namespace riskkv::kernels::test

// usage: riskkv-kernels-test [part of a test's name]
int main(int argc, char** argv) {
  using namespace riskkv::kernels::test;
  int counts[3] = {};
  for (const Case& test : Cases()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    ++counts[static_cast<int>(RunCase(test))];
  }
  std::printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  return counts[1] == 0 && counts[0] + counts[2] > 0 ? 0 : 1;
}
