#include "estimate/structural/safety.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text.h"
#include "estimate/coverage.h"
#include "estimate/structural/layer_rule.h"

namespace carma::estimate {

extern const std::string_view kMeasuredModules;  // modules.txt

namespace {

// Conformal quantiles of (measured - context) / (predicted - context) over 2976 runs of 39 families
// of image models. Those for coverage 0.9 and above were raised slightly to cover families left out
// of the fit. The last column and kPartial are educated guesses, because there is little data.
struct EvidenceFactors {
  Evidence evidence;
  CoverageFactors factors;
};
constexpr EvidenceFactors kFactors[] = {
    {Evidence::kExactBytes, {1.00, 1.05, 1.10, 1.18, 1.75, 3.0}},
    // Quantiles from the same runs, grouped by the number of module types that are unique to the
    // model's family. At most two count as kCompared, more as kOwnAttention or kOwnBlocks. Plain
    // lists of layers (kShapes) fall in between. At coverage 0.98, kCompared equals kExactBytes.
    {Evidence::kCompared, {1.00, 1.07, 1.12, 1.18, 1.75, 3.0}},
    {Evidence::kShapes, {1.00, 1.10, 1.19, 1.32, 1.80, 3.0}},
    {Evidence::kUncompared, {1.00, 1.12, 1.23, 1.41, 2.10, 3.0}},
    // A custom attention module keeps matrices that no row of the summary shows. A custom block of
    // convolutions keeps almost nothing beyond its rows.
    {Evidence::kOwnAttention, {1.00, 1.13, 1.28, 1.52, 2.20, 3.0}},
    {Evidence::kOwnBlocks, {1.00, 1.10, 1.18, 1.27, 2.00, 3.0}},
    {Evidence::kText, {1.00, 1.14, 1.27, 1.50, 1.96, 3.0}},
    {Evidence::kPartial, {1.00, 1.40, 1.70, 2.00, 2.50, 4.0}},
    // With totals only and each family left out in turn, the 2976 runs would need factors of 1.23,
    // 1.38 and 1.61 at coverage 0.8, 0.9 and 0.95. The factors used are slightly larger, because
    // only two runs of other models were compared.
    {Evidence::kTotals, {1.00, 1.30, 1.45, 1.80, 2.40, 4.0}},
};

const std::set<std::string_view>& Measured() {
  static const std::set<std::string_view> kNames = [] {
    std::set<std::string_view> names;
    for (const std::string_view line : base::Split(kMeasuredModules, '\n')) {
      if (!line.empty() && line[0] != '#') names.insert(line);
    }
    return names;
  }();
  return kNames;
}

std::set<std::string_view> UnfamiliarIn(const model::LayerList& list) {
  std::set<std::string_view> unknown;
  for (const model::Layer& layer : list.layers) {
    if (!Measured().contains(layer.type)) unknown.insert(layer.type);
  }
  return unknown;
}

}  // namespace

double ShippedFactor(Evidence evidence, double coverage) {
  return FactorAt(std::ranges::find(kFactors, evidence, &EvidenceFactors::evidence)->factors,
                  coverage);
}

std::size_t UnfamiliarModules(const model::LayerList& list) {
  return UnfamiliarIn(list).size();
}

bool HasUnfamiliarAttention(const model::LayerList& list) {
  return std::ranges::any_of(UnfamiliarIn(list),
                             [](std::string_view type) { return RuleOf(type).attention; });
}

}  // namespace carma::estimate
