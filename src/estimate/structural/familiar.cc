#include "estimate/structural/familiar.h"

#include <set>
#include <string_view>

#include "base/text.h"

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

}  // namespace

std::size_t UnfamiliarModules(const model::LayerList& list) {
  std::set<std::string_view> unknown;
  for (const model::Layer& layer : list.layers) {
    if (!Measured().contains(layer.type)) unknown.insert(layer.type);
  }
  return unknown.size();
}

}  // namespace carma::estimate
