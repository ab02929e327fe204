// A test program in one page, because GPU machines have no gtest. Tests register themselves; a failed check ends its
// test; main prints one line a test and then "N passed, N failed, N skipped".
#ifndef RISKKV_KERNELS_TESTS_CHECK_H_
#define RISKKV_KERNELS_TESTS_CHECK_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace riskkv::kernels::test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Registered before main; run in order of registration, which is by file and line.
int Register(const char* name, void (*body)());

// One line of detail under the running test: an error measured and its tolerance, a seed.
void Note(const std::string& text);

template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

#define RISKKV_TEST(name)                                                                   \
  static void name();                                                                       \
  static const int name##_registered = ::riskkv::kernels::test::Register(#name, &name);     \
  static void name()

#define RISKKV_FAIL(...)                                                                    \
  throw ::riskkv::kernels::test::Failure(                                                   \
      ::riskkv::kernels::test::Text(__FILE__, ":", __LINE__, ": ", __VA_ARGS__))

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) RISKKV_FAIL("not true: ", #condition);                                \
  } while (false)

#define CHECK_EQ(got, want)                                                                 \
  do {                                                                                      \
    const auto& got_ = (got);                                                               \
    const auto& want_ = (want);                                                             \
    if (!(got_ == want_)) RISKKV_FAIL(#got, " is ", got_, ", not ", want_);                 \
  } while (false)

#define CHECK_OK(expression)                                                                \
  do {                                                                                      \
    const ::riskkv::kernels::Status status_ = (expression);                                 \
    if (!status_.ok()) RISKKV_FAIL(#expression, ": ", status_.message());                   \
  } while (false)

// The code matches and the message holds `text`.
#define CHECK_ERROR(expression, want_code, text)                                            \
  do {                                                                                      \
    const ::riskkv::kernels::Status status_ = (expression);                                 \
    const std::string text_ = (text);                                                       \
    if (status_.code() != (want_code) || status_.message().find(text_) == std::string::npos) \
      RISKKV_FAIL(#expression, " gave code ", static_cast<int>(status_.code()), ", \"",     \
                  status_.message(), "\", not code ", static_cast<int>(want_code), " with \"", text_, "\""); \
  } while (false)

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_CHECK_H_
