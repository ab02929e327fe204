// The measured ways to send a cache as a chart, a table, CSV and JSON: shared by the reports of both methods.
#ifndef RISKKV_SERVICES_CALIBRATE_FRONTIER_REPORT_H_
#define RISKKV_SERVICES_CALIBRATE_FRONTIER_REPORT_H_

#include <string>
#include <vector>

#include "common/quality/rivals.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/report.h"

namespace riskkv::calibrate {

// `split`: whose windows they were measured on. No script without policies.
Plot FrontierPlot(const std::vector<MeasuredPolicy>& policies, const std::string& split);
std::string FrontierHtml(const std::vector<MeasuredPolicy>& policies);
std::string FrontierCsv(const std::vector<MeasuredPolicy>& policies);
nlohmann::json FrontierJson(const std::vector<MeasuredPolicy>& policies);

// How many times fewer bytes coding sends than `policy` with the same ends: bytes of the policy over those of the
// coarsest coded one whose mean change of NLL is not above the policy's. 0 when none is, or none has these ends.
double CodedGain(const MeasuredPolicy& policy, const std::vector<MeasuredPolicy>& policies);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_FRONTIER_REPORT_H_
