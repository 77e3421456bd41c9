// Holds users' GPU reservations and computes their periods for the core. The engine stores every
// change.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/calendar.h"
#include "base/result.h"
#include "core/books/reserved_periods.h"
#include "store/store.h"

namespace carma::daemon {

class Reservations {
 public:
  explicit Reservations(base::Calendar calendar = base::Calendar::OfServer())
      : calendar_(calendar) {}

  // Restores the reservations of an earlier run. Numbering continues from the last number used.
  // Returns kCorrupt if rows are damaged.
  Result<Unit> Restore(const std::vector<store::ReservationRow>& rows);
  // Assigns a number to the reservation and stores the UUIDs of its GPUs, so that it still means
  // the same GPUs if their order changes. Returns kInvalid for unknown GPUs or a past period.
  // Returns kConflict if there are too many reservations, or if this one or another would not get
  // its GPUs.
  Result<core::Reservation> Add(core::Reservation booking, std::span<const core::GpuInfo> gpus,
                                core::Time now);
  void Remove(core::ReservationId id) { all_.erase(id); }

  const std::map<core::ReservationId, core::Reservation>& all() const { return all_; }
  const core::Reservation* Find(core::ReservationId id) const;  // null if unknown
  // The reservation's current or next period; empty if it is over.
  std::optional<core::ReservedPeriod> NextOf(const core::Reservation& booking,
                                             core::Time now) const;

  // Returns the periods for the core. Must be called again when IsDue() is true.
  std::vector<core::ReservedPeriod> Tell(core::Time now);
  bool IsDue(core::Time now) const { return tell_again_ && now >= *tell_again_; }

 private:
  std::vector<core::ReservedPeriod> PeriodsFrom(core::Time now) const;

  base::Calendar calendar_;
  std::map<core::ReservationId, core::Reservation> all_;
  core::ReservationId last_{};
  std::optional<core::Time> tell_again_;
};

store::ReservationRow RowOf(const core::Reservation& booking);

}  // namespace carma::daemon
