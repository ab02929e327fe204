#include "common/quality/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/quality/random.h"

namespace riskkv {
namespace {

double ResampledMean(const std::vector<std::vector<double>>& articles, Random& random) {
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < articles.size(); ++i) {
    const std::vector<double>& windows = articles[random.Below(articles.size())];
    for (std::size_t w = 0; w < windows.size(); ++w) sum += windows[random.Below(windows.size())];
    n += windows.size();
  }
  return sum / static_cast<double>(n);
}

}  // namespace

std::vector<double> BootstrapMeans(std::span<const PairedDelta> deltas, const BootstrapOptions& options) {
  std::vector<double> means;
  if (deltas.empty()) return means;
  std::map<int, std::vector<double>> by_article;
  for (const PairedDelta& d : deltas) by_article[d.article].push_back(d.value);
  std::vector<std::vector<double>> articles;
  for (auto& [id, values] : by_article) articles.push_back(std::move(values));
  Random random(options.seed);
  means.reserve(static_cast<std::size_t>(options.resamples));
  for (int i = 0; i < options.resamples; ++i) means.push_back(ResampledMean(articles, random));
  std::sort(means.begin(), means.end());
  return means;
}

double Quantile(std::span<const double> ascending, double q) {
  if (ascending.empty()) return 0;
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (at - std::floor(at)) * (ascending[above] - ascending[below]);
}

RiskStats Summarise(std::span<const PairedDelta> deltas, const BootstrapOptions& options) {
  RiskStats stats;
  if (deltas.empty()) return stats;
  std::map<int, int> articles;
  std::vector<double> values;
  stats.worst = deltas.front().value;
  for (const PairedDelta& d : deltas) {
    stats.mean += d.value / static_cast<double>(deltas.size());
    stats.worst = std::max(stats.worst, d.value);
    ++articles[d.article];
    values.push_back(d.value);
  }
  std::sort(values.begin(), values.end());
  stats.p50 = Quantile(values, 0.5);
  stats.p90 = Quantile(values, 0.9);
  stats.p99 = Quantile(values, 0.99);
  stats.windows = static_cast<int>(deltas.size());
  stats.articles = static_cast<int>(articles.size());
  const std::vector<double> means = BootstrapMeans(deltas, options);
  stats.low95 = Quantile(means, 0.025);
  stats.high95 = Quantile(means, 0.975);
  stats.upper90 = Quantile(means, 0.90);
  return stats;
}

}  // namespace riskkv
