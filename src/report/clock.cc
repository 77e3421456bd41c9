#include "report/clock.h"

#include <algorithm>

#include "base/text.h"

namespace carma::report {

std::string ClockText(core::Time when, Clock clock) {
  std::string text = base::FormatTimeIso(when + clock.ahead_of_utc).substr(0, 19);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

}  // namespace carma::report
