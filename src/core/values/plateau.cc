#include "core/values/plateau.h"

#include <algorithm>

namespace carma::core {

std::int64_t NeedAfterPlateau(std::int64_t peak_mib) {
  constexpr std::int64_t kMorePercent = 3;
  constexpr std::int64_t kMoreMib = 300;
  return peak_mib + peak_mib * kMorePercent / 100 + kMoreMib;
}

bool Plateau::See(std::int64_t mib, Time when) {
  constexpr std::int64_t kRisePercent = 1;
  peak_mib_ = std::max(peak_mib_, mib);
  if (mib * 100 <= risen_to_mib_ * (100 + kRisePercent)) return false;
  risen_to_mib_ = mib;
  since_ = when;
  return true;
}

void Plateau::Doubt(Time when) {
  if (since_) since_ = when;
}

}  // namespace carma::core
