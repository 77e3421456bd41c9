// When reservations hold that begin again and again. Pure, but for what the calendar knows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/calendar.h"
#include "core/values/gpu.h"
#include "core/values/reservation.h"

namespace carma::core {

// The periods that are not over at `now` and begin before `horizon`, and the next one at least.
std::vector<ReservedPeriod> PeriodsOf(const Reservation& booking, Time now, Time horizon,
                                      const base::Calendar& calendar);

// Why these cannot all hold, in a sentence: one has fewer GPUs than it asks for, because there are
// not so many or another one has them at that time. Empty: they can.
std::optional<std::string> WhyNotAll(std::vector<ReservedPeriod> periods, Time now,
                                     std::span<const GpuInfo> gpus);

}  // namespace carma::core
