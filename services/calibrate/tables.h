// What the commands print: plain tables for people, JSON for programs.
#ifndef RISKKV_SERVICES_CALIBRATE_TABLES_H_
#define RISKKV_SERVICES_CALIBRATE_TABLES_H_

#include <string>

#include "common/predictor/predictor_set.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/calibrator.h"
#include "services/calibrate/evaluator.h"

namespace riskkv::calibrate {

std::string CalibrationTable(const CalibrationResult& result, const std::string& path);
nlohmann::json CalibrationJson(const CalibrationResult& result, const std::string& path);
std::string EvaluationTable(const Evaluation& evaluation);
std::string SetTable(const PredictorSet& set);
nlohmann::json SetJson(const PredictorSet& set);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_TABLES_H_
