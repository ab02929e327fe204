// Where the checkout and the built programs are. The only place that knows: a path in every test's command line would
// keep the compiler's cache from serving another clone.
#ifndef RISKKV_TESTS_TESTING_PATHS_H_
#define RISKKV_TESTS_TESTING_PATHS_H_

#include <string>

namespace riskkv::testing {

std::string SourceDir();                         // the checkout
std::string BinaryPath(const std::string& name); // of a program this build makes; it may not be built yet

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_TESTING_PATHS_H_
