#include "estimate/grain.h"

#include <algorithm>

#include "core/values/mps_guess.h"
#include "model/features.h"

namespace carma::estimate {

std::optional<double> GrainOf(const model::LayerList& list, std::optional<std::int64_t> batch) {
  constexpr std::int64_t kLargeBatch = 1 << 20;
  if (list.collapsed || !batch || model::Classify(list) != model::Family::kCnn) return std::nullopt;
  const model::Features features = model::Summarize(list);
  return core::GrainOf({.transformer = false,
                        .batch_size = static_cast<int>(std::min(*batch, kLargeBatch)),
                        .layers = features.conv + features.linear});
}

}  // namespace carma::estimate
