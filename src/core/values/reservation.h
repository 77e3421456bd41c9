// Reservations set aside GPUs for certain tasks for a period of time. Values only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/words.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"

namespace carma::core {

enum class ReservationId : std::uint64_t {};
constexpr std::uint64_t Number(ReservationId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint64_t format_as(ReservationId id) {
  return Number(id);
}

enum class Repeat { kOnce, kDaily, kWeekdays, kWeekly };
inline constexpr std::array<std::pair<Repeat, std::string_view>, 4> kRepeatWords{{
    {Repeat::kOnce, "once"},
    {Repeat::kDaily, "daily"},
    {Repeat::kWeekdays, "weekdays"},  // Monday to Friday
    {Repeat::kWeekly, "weekly"},
}};

// Minimum and maximum length of a reservation. Use a drain for longer periods.
inline constexpr Duration kLeastBooked{60'000};
inline constexpr Duration kMostBooked = std::chrono::hours(24 * 366);
inline constexpr std::size_t kMaxReservations = 1000;

struct Reservation {
  ReservationId id{};   // set by the daemon, not a JSON field
  std::string made_by;  // the user; also set by the daemon
  // Users, accounts and classes whose tasks may run on the GPUs. If all three are empty, no task
  // may.
  std::vector<std::string> users;
  std::vector<std::string> accounts;
  std::vector<std::string> classes;
  // Which GPUs are reserved: by name, by type or by count. If none of the three is set, all GPUs
  // are reserved.
  std::vector<std::string> on_gpus;
  std::optional<std::string> gpu_type;
  std::optional<int> count;
  Time from{};        // start of the first period
  Duration length{};  // on the local clock if the reservation repeats
  Repeat repeat = Repeat::kOnce;
  std::optional<Time> until;  // no repetition begins later; empty if unlimited
  std::string why;

  static void VisitFields(auto& field, auto& booking) {
    field("users", booking.users, "Users whose tasks may run on the GPUs.",
          {.max_bytes = 64, .max_items = 1000, .unless_empty = true});
    field("accounts", booking.accounts, "Accounts whose tasks may run on the GPUs.",
          {.max_bytes = 64, .max_items = 1000, .fits = IsShareName, .unless_empty = true});
    field("classes", booking.classes,
          "Classes of the tasks that may run on the GPUs. If users, accounts and classes are all "
          "empty, no task may.",
          {.max_bytes = 64, .max_items = 1000, .fits = IsShareName, .unless_empty = true});
    field("gpus", booking.on_gpus,
          "The reserved GPUs or, if count is set, the GPUs to choose from; empty means all GPUs.",
          kGpuNames);
    field("gpu_type", booking.gpu_type, "GPUs whose model name contains this text, such as a100.",
          {.max_bytes = 64, .fits = IsGpuTypeWord, .expected = "part of a GPU name"});
    field("count", booking.count, "Number of GPUs; null means all.", {.low = 1, .high = kMaxGpus});
    field("from_ms", booking.from, "Start of the first period (ms since the epoch).",
          {.low = 0, .high = kMaxBeginMs, .required = true});
    field("length_s", booking.length, "Length of a period, by the local clock if repeated.",
          {.low = kLeastBooked.count(),
           .high = kMostBooked.count(),
           .required = true,
           .expected = "from a minute to a year"});
    field("repeat", booking.repeat,
          "How often the reservation repeats, in the server's local time.",
          {.words = "once,daily,weekdays,weekly"});
    field("until_ms", booking.until, "No repetition begins after this time; null means no end.",
          {.low = 0, .high = kMaxBeginMs});
    field("why", booking.why, "Purpose of the reservation, in one line.", {.max_bytes = 500});
  }
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

// One period of a reservation.
struct ReservedPeriod {
  Reservation booking;
  Time from{};
  Time to{};
  friend bool operator==(const ReservedPeriod&, const ReservedPeriod&) = default;
};

// True if the task may use the reserved GPUs.
bool IsFor(const Reservation& booking, const TaskRequest& request);
// Text such as "ada, account vision" or "nobody".
std::string WhomFor(const Reservation& booking);
// Text such as "2 of a100", "GPU-1, GPU-2" or "all GPUs".
std::string WhichOf(const Reservation& booking);

// A planned run of a task. RunsInto checks it against the reserved periods of a GPU.
struct BookedStart {
  Time from{};
  Time to{};                           // latest end of the task
  std::span<const ReservationId> own;  // the reservations that admit the task
};
// Returns the first period that the task would run into and that does not admit it, or null if
// there is none.
const ReservedPeriod* RunsInto(std::span<const ReservedPeriod* const> periods,
                               const BookedStart& start);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::Repeat>
    carma::base::kWordsOf<carma::core::Repeat> = carma::core::kRepeatWords;
