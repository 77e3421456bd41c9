// Computes the periods of repeated reservations. Pure, except for the use of the local calendar.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/calendar.h"
#include "core/values/gpu.h"
#include "core/values/reservation.h"

namespace carma::core {

// The periods that are not over at `now` and begin before `horizon`, but at least the next period.
std::vector<ReservedPeriod> PeriodsOf(const Reservation& booking, Time now, Time horizon,
                                      const base::Calendar& calendar);

// Why these periods conflict, in a sentence: a period gets fewer GPUs than requested, because there
// are too few or another period has them. Empty: no conflict. If `newcomer` is set, conflicts that
// exist without that reservation do not count.
std::optional<std::string> WhyNotAll(const std::vector<ReservedPeriod>& periods, Time now,
                                     std::span<const GpuInfo> gpus,
                                     std::optional<ReservationId> newcomer = {});

}  // namespace carma::core
