#include "daemon/engine/reservations.h"

#include <algorithm>

#include "base/fields_json.h"
#include "base/json.h"
#include "base/try.h"
#include "core/values/gpu_choice.h"

namespace carma::daemon {
namespace {

// The core receives all periods that begin within this time, which exceeds the usual time limit of
// a task. The periods are sent again every day.
constexpr core::Duration kHorizon = std::chrono::hours(24 * 35);
constexpr core::Duration kTellAgain = std::chrono::hours(24);

Result<Unit> NameByUuid(core::Reservation& booking, std::span<const core::GpuInfo> gpus) {
  const core::TaskRequest asks{.gpu_type = booking.gpu_type, .on_gpus = booking.on_gpus};
  if (std::optional<std::string> misnamed = core::MisnamedGpus(asks, gpus))
    return Invalid(*std::move(misnamed));
  for (std::string& name : booking.on_gpus) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!core::NamesGpu(name, static_cast<core::GpuIndex>(i), gpus[i])) continue;
      name = gpus[i].uuid;
      break;
    }
  }
  std::ranges::sort(booking.on_gpus);
  const auto twice = std::ranges::unique(booking.on_gpus);
  booking.on_gpus.erase(twice.begin(), twice.end());
  return Unit{};
}

}  // namespace

store::ReservationRow RowOf(const core::Reservation& booking) {
  return {booking.id, booking.made_by,
          base::DumpJson(base::FieldsToJson(booking, base::Absent::kLeftOut))};
}

Result<Unit> Reservations::Restore(const std::vector<store::ReservationRow>& rows) {
  for (const store::ReservationRow& row : rows) {
    last_ = std::max(last_, row.id);
    if (!row.description) continue;
    const Result<base::Json> json = base::ParseJson(*row.description);
    Result<core::Reservation> booking =
        json ? base::FieldsFromJson<core::Reservation>(*json, "", base::Unknown::kPassedOver)
             : std::unexpected(json.error());
    if (!booking)
      return Fail(ErrorCode::kCorrupt, "reservation {}: {}", row.id, booking.error().message);
    booking->id = row.id;
    booking->made_by = row.made_by;
    all_.emplace(row.id, *std::move(booking));
  }
  return Unit{};
}

Result<core::Reservation> Reservations::Add(core::Reservation booking,
                                            std::span<const core::GpuInfo> gpus, core::Time now) {
  CARMA_TRY(NameByUuid(booking, gpus));
  booking.id = core::ReservationId{core::Number(last_) + 1};
  if (!NextOf(booking, now)) return Invalid("the reservation's time has already passed");
  std::erase_if(all_, [&](const auto& each) { return !NextOf(each.second, now); });
  if (all_.size() >= core::kMaxReservations)
    return Conflict("there are already {} reservations, the maximum", core::kMaxReservations);
  all_.emplace(booking.id, booking);
  if (const auto why_not = core::WhyNotAll(PeriodsFrom(now), now, gpus, booking.id)) {
    all_.erase(booking.id);
    return Conflict(*why_not);
  }
  last_ = booking.id;
  return booking;
}

const core::Reservation* Reservations::Find(core::ReservationId id) const {
  const auto at = all_.find(id);
  return at == all_.end() ? nullptr : &at->second;
}

std::optional<core::ReservedPeriod> Reservations::NextOf(const core::Reservation& booking,
                                                         core::Time now) const {
  std::vector<core::ReservedPeriod> next = core::PeriodsOf(booking, now, now, calendar_);
  if (next.empty()) return std::nullopt;
  return std::move(next.front());
}

std::vector<core::ReservedPeriod> Reservations::PeriodsFrom(core::Time now) const {
  std::vector<core::ReservedPeriod> periods;
  for (const auto& [id, booking] : all_) {
    for (core::ReservedPeriod& each : core::PeriodsOf(booking, now, now + kHorizon, calendar_))
      periods.push_back(std::move(each));
  }
  return periods;
}

std::vector<core::ReservedPeriod> Reservations::Tell(core::Time now) {
  tell_again_.reset();
  if (!all_.empty()) tell_again_ = now + kTellAgain;
  return PeriodsFrom(now);
}

}  // namespace carma::daemon
