#include "estimate/structural/familiar.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text.h"
#include "estimate/structural/layer_rule.h"

namespace carma::estimate {

extern const std::string_view kMeasuredModules;  // modules.txt

namespace {

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

std::size_t UnfamiliarModules(const model::LayerList& list) {
  return UnfamiliarIn(list).size();
}

bool HasUnfamiliarAttention(const model::LayerList& list) {
  return std::ranges::any_of(UnfamiliarIn(list),
                             [](std::string_view type) { return RuleOf(type).attention; });
}

}  // namespace carma::estimate
