#include "services/calibrate/provenance.h"

#include <filesystem>

#include "nlohmann/json.hpp"

namespace riskkv::calibrate {
namespace {

using nlohmann::json;

json SplitJson(const TextFile& file, int windows, int articles) {
  return {{"file", std::filesystem::path(file.path).filename().string()},
          {"sha256", file.digest},
          {"articles_in_file", file.articles.size()},
          {"windows", windows},
          {"articles", articles}};
}

}  // namespace

std::string ProvenanceJson(const CalibrateOptions& options, const Splits& splits,
                           const CalibrationResult& result) {
  json curves = json::array(), budgets = json::array();
  for (const FittedGroup& g : result.fitted) {
    json curve = json::array();
    for (const LambdaPoint& p : g.lambda.curve) curve.push_back({p.lambda, p.error});
    curves.push_back(std::move(curve));
  }
  for (const BudgetResult& b : result.budgets) {
    budgets.push_back({{"epsilon", b.epsilon}, {"gate", GateName(b.gate)}, {"profile", b.profile}});
  }
  json j = {{"program", "riskkv " RISKKV_VERSION},
            {"seed", options.seed},
            {"resamples", options.resamples},
            {"history", options.shape.history},
            {"horizon", options.shape.horizon},
            {"ends", {options.ends.first, options.ends.last}},
            {"order", result.path.order},
            {"exact_nll_select", result.exact_nll},
            {"lambda_curves", std::move(curves)},
            {"budgets", std::move(budgets)},
            {"splits",
             {{"fit", SplitJson(splits.fit, result.windows.fit, result.articles.fit)},
              {"select", SplitJson(splits.select, result.windows.select, result.articles.select)}}}};
  if (splits.confirm)
    j["splits"]["confirm"] = SplitJson(*splits.confirm, result.windows.confirm, result.articles.confirm);
  return j.dump();
}

}  // namespace riskkv::calibrate
