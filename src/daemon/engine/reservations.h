// The reservations of GPUs as people made them, and the periods that follow from them. Kept by the
// engine, which makes every change durable.
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

  // Those of an earlier life; numbers go on behind the last ever given. Errors: kCorrupt.
  base::Result<base::Unit> Restore(const std::vector<store::ReservationRow>& rows);
  // With a number, and its GPUs by UUID: they stay the same whatever their order is after a
  // restart. Errors: kInvalid for GPUs that are not there and a period that is over, kConflict
  // where some reservation would not have its GPUs.
  base::Result<core::Reservation> Add(core::Reservation booking,
                                      std::span<const core::GpuInfo> gpus, core::Time now);
  void Remove(core::ReservationId id) { all_.erase(id); }

  const std::map<core::ReservationId, core::Reservation>& all() const { return all_; }
  const core::Reservation* Find(core::ReservationId id) const;  // null: none
  // When it holds now, or next; empty: it is over.
  std::optional<core::ReservedPeriod> NextOf(const core::Reservation& booking,
                                             core::Time now) const;

  // What the core is to be told, and when it has to be told again (IsDue).
  std::vector<core::ReservedPeriod> Tell(core::Time now);
  bool IsDue(core::Time now) const { return tell_again_ && now >= *tell_again_; }

 private:
  std::vector<core::ReservedPeriod> PeriodsFrom(core::Time now) const;

  base::Calendar calendar_;
  std::map<core::ReservationId, core::Reservation> all_;
  core::ReservationId last_{};
  std::optional<core::Time> tell_again_;
};

// As the store keeps it.
store::ReservationRow RowOf(const core::Reservation& booking);

}  // namespace carma::daemon
