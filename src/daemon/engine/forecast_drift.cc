#include "daemon/engine/forecast_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "core/values/task.h"
#include "report/forecast.h"

namespace carma::daemon {
namespace {

// The warning starts at the first threshold and ends at the second, so a single task cannot toggle
// it.
constexpr double kByChance = 1e-3, kByChanceAgain = 1e-2;
// Minimum number of tasks for a meaningful median.
constexpr std::size_t kLeastForMedian = 20;
constexpr double kMuchTooHigh = 0.5;
constexpr double kFarOff = 1.5;
constexpr std::string_view kMemory = "memory_mib", kActivity = "sm_active", kSlowdown = "slowdown";
// The method name of estimates without a prediction.
constexpr const char* kNoPrediction = "prior";

double MedianRatio(const std::deque<report::Forecast>& forecasts) {
  std::vector<double> ratios;
  ratios.reserve(forecasts.size());
  for (const report::Forecast& each : forecasts) ratios.push_back(each.seen / each.predicted);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

// A sentence about a drift in SM activity or slowdown, which are predicted but not promised; empty
// if there is no drift.
std::string JudgeMedian(const std::deque<report::Forecast>& last) {
  if (last.size() < kLeastForMedian) return "";
  const double median = MedianRatio(last);
  if (median < kFarOff && median > 1 / kFarOff) return "";
  const bool activity = last.back().what == kActivity;
  return fmt::format("half of the last {} tasks {} {} {:.1f} times as {} as predicted ({})",
                     last.size(), activity ? "kept the SMs" : "with neighbours were slowed down",
                     median > 1 ? "at least" : "at most", median, activity ? "busy" : "much",
                     base::Printable(last.back().by, 60));
}

bool IsPredicted(const report::Forecast& forecast, const core::TaskRecord& record) {
  if (forecast.predicted <= 0) return false;
  if (forecast.what == kMemory) return !record.request->memory_mib && forecast.by != kNoPrediction;
  return forecast.what == kActivity || forecast.what == kSlowdown;
}

}  // namespace

double ChanceOfAtLeast(std::size_t least, std::size_t count, double chance) {
  // Computes each term of the binomial distribution from the previous one.
  double term = std::pow(1 - chance, static_cast<double>(count)), below = 0;
  for (std::size_t n = 0; n < least; ++n) {
    below += term;
    term *= static_cast<double>(count - n) / static_cast<double>(n + 1) * chance / (1 - chance);
  }
  return std::clamp(1 - below, 0.0, 1.0);
}

std::string ForecastDrift::JudgeMemory(const Method& method, double coverage) {
  const std::size_t count = method.last.size();
  if (count < kLeast) return "";
  const auto broken =
      static_cast<std::size_t>(std::ranges::count_if(method.last, [](const report::Forecast& each) {
        return each.seen > each.promised.value_or(each.predicted);
      }));
  const double expected = coverage > 0 ? 1 - coverage : 0.5;
  const std::string name = base::Printable(method.last.back().by, 60);
  const double limit = method.sentence.empty() ? kByChance : kByChanceAgain;
  if (broken > 0 && ChanceOfAtLeast(broken, count, expected) < limit) {
    return fmt::format(
        "{} of the last {} tasks estimated by {} used more than they were promised; about {:.0f} "
        "were expected",
        broken, count, name, expected * static_cast<double>(count));
  }
  if (count < kLeastForMedian) return "";
  const double median = MedianRatio(method.last);
  if (median >= kMuchTooHigh) return "";
  return fmt::format(
      "half of the last {} tasks estimated by {} used less than {:.0f} % of what was "
      "predicted",
      count, name, std::ceil(median * 100));
}

std::string ForecastDrift::Take(const core::TaskRecord& record, double coverage) {
  std::string begun;
  for (const report::Forecast& each : report::ForecastsOf(record)) {
    if (!IsPredicted(each, record)) continue;
    Method& method = methods_[{each.what, each.by}];
    method.last.push_back(each);
    if (method.last.size() > kLast) method.last.pop_front();
    const bool before = !method.sentence.empty();
    method.sentence =
        each.what == kMemory ? JudgeMemory(method, coverage) : JudgeMedian(method.last);
    if (!before && !method.sentence.empty()) begun = method.sentence;
  }
  return begun;
}

std::vector<std::string> ForecastDrift::Sentences() const {
  std::vector<std::string> sentences;
  for (const auto& [name, method] : methods_) {
    if (!method.sentence.empty()) sentences.push_back(method.sentence);
  }
  return sentences;
}

}  // namespace carma::daemon
