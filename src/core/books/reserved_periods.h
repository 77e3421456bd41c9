// Computes the periods of repeated reservations. Pure apart from its use of the local calendar.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/calendar.h"
#include "core/values/gpu.h"
#include "core/values/reservation.h"

namespace carma::core {

// The periods that have not ended by `now` and begin before `horizon`. The next period is included
// even if it begins later.
std::vector<ReservedPeriod> PeriodsOf(const Reservation& booking, Time now, Time horizon,
                                      const base::Calendar& calendar);

// Explains in one sentence why a period gets fewer GPUs than requested; empty if every period gets
// enough. If `newcomer` is set, ignores periods that would be short of GPUs even without the new
// reservation.
std::optional<std::string> WhyNotAll(const std::vector<ReservedPeriod>& periods, Time now,
                                     std::span<const GpuInfo> gpus,
                                     std::optional<ReservationId> newcomer = {});

}  // namespace carma::core
