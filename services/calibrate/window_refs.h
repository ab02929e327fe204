// Windows as a person finds them again in a report.
#ifndef RISKKV_SERVICES_CALIBRATE_WINDOW_REFS_H_
#define RISKKV_SERVICES_CALIBRATE_WINDOW_REFS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/engine/engine.h"
#include "common/quality/articles.h"
#include "common/quality/windows.h"
#include "services/calibrate/result.h"

namespace riskkv::calibrate {

// In the order of the windows; the text is that of a few tokens before and after the end of the history.
std::vector<WindowRef> WindowRefs(const Engine& engine, const WindowSet& set, const TextFile& file);

// Runs of white space and control characters as one blank; bytes that are not UTF-8 (half a character at a cut) left
// out.
std::string OneLine(std::string_view text);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_WINDOW_REFS_H_
