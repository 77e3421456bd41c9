// The clock shown on time axes.
#pragma once

#include <string>

#include "core/values/ids.h"

namespace carma::report {

struct Clock {
  core::Duration ahead_of_utc{};
};

// "2026-11-23 14:02:05".
std::string ClockText(core::Time when, Clock clock);

}  // namespace carma::report
