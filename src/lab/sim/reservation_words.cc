#include "lab/sim/reservation_words.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "lab/sim/model_words.h"
#include "task/describe/option_values.h"

namespace carma::sim {
namespace {

using core::Repeat;
using core::Reservation;

// 1970 began on a Thursday.
constexpr base::Duration kFirstMonday = std::chrono::hours(4 * 24);
constexpr base::Duration kDay = std::chrono::hours(24);
constexpr base::Duration kLatest = 3660 * kDay;
constexpr std::string_view kTimeForms =
    "a time span of at most ten years after the first submission, or a time such as 14:00";

// True for a time of day such as 14:00. As a span, it would be 14 minutes.
bool IsClock(std::string_view value) {
  return !value.starts_with('+') && std::ranges::count(value, ':') == 1 && !value.contains('-');
}

// Reads "14:00" as a time on the first day.
bool SetTime(core::Time& target, std::string_view value) {
  std::string text(value.starts_with('+') ? value.substr(1) : value);
  if (IsClock(value)) text += ":00";
  const Result<base::Duration> span = base::ParseSpan(text);
  if (!span || *span > kLatest) return false;
  target = core::Time{*span};
  return true;
}

bool SetUsers(Reservation& booking, std::string_view value) {
  for (const std::string_view each : base::Split(value, ',')) {
    if (each.empty()) return false;
    if (value != "nobody") booking.users.emplace_back(each);
  }
  return true;
}

bool SetGpus(Reservation& booking, std::string_view value) {
  if (value == "all") return true;
  return SetIf(booking.on_gpus, task::ParseGpuNames(value));
}

struct Word {
  std::string_view name;
  std::string_view expected;
  bool (*set)(Reservation& booking, std::string_view value);
};

// The setter of "to" stores a time, which ParseReservation turns into a length.
constexpr std::array kReservationWords{
    Word{"for", "users, or nobody", SetUsers},
    Word{"gpus", "GPU numbers or all", SetGpus},
    Word{"type", "part of a GPU name",
         [](Reservation& booking, std::string_view value) {
           return SetIf(booking.gpu_type, task::ParseGpuType(value));
         }},
    Word{"count", "a number from 1 to 1024",
         [](Reservation& booking, std::string_view value) {
           return Set(booking.count.emplace(), value, 1, core::kMaxGpus);
         }},
    Word{"from", kTimeForms,
         [](Reservation& booking, std::string_view value) { return SetTime(booking.from, value); }},
    Word{"to", kTimeForms,
         [](Reservation& booking, std::string_view value) {
           core::Time to{};
           const bool set = SetTime(to, value);
           booking.length = to.time_since_epoch();
           return set;
         }},
    Word{"for-time", "a time span",
         [](Reservation& booking, std::string_view value) {
           return SetIf(booking.length, base::ParseSpan(value));
         }},
    Word{"repeat", "once, daily, weekdays or weekly",
         [](Reservation& booking, std::string_view value) { return Set(booking.repeat, value); }},
    Word{"until", kTimeForms,
         [](Reservation& booking, std::string_view value) {
           return SetTime(booking.until.emplace(), value);
         }},
};

}  // namespace

Result<Reservation> ParseReservation(std::string_view text) {
  Reservation booking;
  std::vector<std::string_view> told;
  bool ends_at_clock = false;
  for (const std::string_view each : base::Split(text, ' ')) {
    if (each.empty()) continue;
    // "to=+4h" counts from the start.
    const std::string piece =
        each.starts_with("to=+") ? "for-time=" + std::string(each.substr(4)) : std::string(each);
    const std::size_t equals = std::min(piece.find('='), piece.size());
    const auto* word = std::ranges::find(kReservationWords,
                                         std::string_view(piece).substr(0, equals), &Word::name);
    if (word == kReservationWords.end() || equals == piece.size()) {
      return Invalid("expected words like for=ada gpus=0,1 from=9h for-time=8h, not '{}'",
                     base::Printable(piece, 60));
    }
    if (!word->set(booking, piece.substr(equals + 1))) {
      return Invalid("{}: expected {}, not '{}'", word->name, word->expected,
                     base::Printable(piece.substr(equals + 1), 60));
    }
    told.push_back(word->name);
    ends_at_clock |= word->name == "to" && IsClock(piece.substr(equals + 1));
  }
  const auto says = [&told](std::string_view name) { return std::ranges::count(told, name) > 0; };
  if (!says("for")) return Invalid("expected users: 'for=ada' or 'for=nobody'");
  if (!says("gpus") && !says("type") && !says("count"))
    return Invalid("expected GPUs: 'gpus=0,1', 'gpus=all', 'count=' or 'type='");
  if (says("to") == says("for-time")) return Invalid("expected either to= or for-time=");
  if (says("to")) booking.length -= booking.from.time_since_epoch();
  // "from=22:00 to=06:00" ends the next morning.
  while (ends_at_clock && booking.length <= base::Duration{0}) booking.length += kDay;
  if (booking.length < core::kLeastBooked || booking.length > core::kMostBooked)
    return Invalid("the reservation is shorter than a minute or longer than 366 days");
  const base::Duration again = booking.repeat == Repeat::kWeekly ? 7 * kDay : kDay;
  if (booking.repeat != Repeat::kOnce && booking.length >= again)
    return Invalid("the reservation repeats before it is over");
  return booking;
}

std::vector<core::ReservedPeriod> PeriodsOf(std::span<const Reservation> reservations,
                                            core::Time first, core::Time now, core::Time horizon) {
  // Offset to calendar time, in which the first submission falls on a Monday.
  const base::Duration ahead = kFirstMonday - first.time_since_epoch();
  std::vector<core::ReservedPeriod> all;
  std::uint64_t number = 0;
  for (Reservation booking : reservations) {
    booking.id = core::ReservationId{++number};
    booking.from += kFirstMonday;
    if (booking.until) *booking.until += kFirstMonday;
    for (core::ReservedPeriod& each :
         core::PeriodsOf(booking, now + ahead, horizon + ahead, base::Calendar::Utc())) {
      each.from -= ahead;
      each.to -= ahead;
      all.push_back(std::move(each));
    }
  }
  return all;
}

}  // namespace carma::sim
