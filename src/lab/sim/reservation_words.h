// Parses reservations on the simulated servers: `carma simulate --reserve`.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/books/reserved_periods.h"

namespace carma::sim {

// Parses the keywords of `carma reserve`, separated by spaces: "for=ada,bob gpus=0,1 from=9h
// for-time=8h repeat=weekdays until=30d", "for=nobody count=2 type=a100 from=14:00 to=+4h". Time 0
// is the first submission, which counts as midnight on a Monday. The reservation applies to each
// server. Accounts and classes are not supported. Returns kInvalid for invalid keywords.
Result<core::Reservation> ParseReservation(std::string_view text);

// Returns the periods that are active at `now` or begin before `horizon`, plus the next period of
// each reservation. Reservations are numbered from 1, for ReservationBook. `first` is the time of
// the first submission.
std::vector<core::ReservedPeriod> PeriodsOf(std::span<const core::Reservation> reservations,
                                            core::Time first, core::Time now, core::Time horizon);

}  // namespace carma::sim
