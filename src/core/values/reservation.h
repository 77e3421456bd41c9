// GPUs that are kept for somebody in a period of time: what people reserve. Values.
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
#include "core/values/task.h"

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

// Shorter is no reservation, longer is a server of one's own: a drain says that better.
inline constexpr Duration kLeastBooked{60'000};
inline constexpr Duration kMostBooked = std::chrono::hours(24 * 366);
inline constexpr std::size_t kMaxReservations = 1000;

struct Reservation {
  ReservationId id{};   // the daemon's word, no field
  std::string made_by;  // likewise
  // Whose tasks may be there meanwhile: those of all these. None at all: nobody's.
  std::vector<std::string> users;
  std::vector<std::string> accounts;
  std::vector<std::string> classes;
  // Which GPUs: of these, of that type, so many; nothing said: all.
  std::vector<std::string> on_gpus;
  std::optional<std::string> gpu_type;
  std::optional<int> count;
  Time from{};  // of the first time
  Duration length{};
  Repeat repeat = Repeat::kOnce;
  std::optional<Time> until;  // no repetition begins after that; empty: for ever
  std::string why;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& booking) {
    field("users", booking.users, "Users whose tasks may be there meanwhile.",
          {.max_bytes = 64, .max_items = 1000, .unless_empty = true});
    field("accounts", booking.accounts, "Accounts, likewise.",
          {.max_bytes = 64, .max_items = 1000, .fits = IsShareName, .unless_empty = true});
    field("classes", booking.classes, "Classes, likewise. None of all three: nobody's tasks.",
          {.max_bytes = 64, .max_items = 1000, .fits = IsShareName, .unless_empty = true});
    field("gpus", booking.on_gpus, "These GPUs, or so many of these (count). None: of all.",
          kGpuNames);
    field("gpu_type", booking.gpu_type, "GPUs whose model's name has this in it: a100 …",
          {.max_bytes = 64, .fits = IsGpuTypeWord, .expected = "a part of a GPU's name"});
    field("count", booking.count, "So many of them; null: all.", {.low = 1, .high = kMaxGpus});
    field("from_ms", booking.from, "When it begins the first time (ms since the epoch).",
          {.low = 0, .high = kMaxBeginMs, .required = true});
    field("length_s", booking.length, "How long it lasts.",
          {.low = kLeastBooked.count(),
           .high = kMostBooked.count(),
           .required = true,
           .expected = "from a minute to a year"});
    field("repeat", booking.repeat, "How often it begins again, by the server's local time.",
          {.words = "once,daily,weekdays,weekly"});
    field("until_ms", booking.until, "No repetition begins after that; null: for ever.",
          {.low = 0, .high = kMaxBeginMs});
    field("why", booking.why, "One line for people.", {.max_bytes = 500});
  }
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

// One time that it holds.
struct ReservedPeriod {
  Reservation booking;
  Time from{};
  Time to{};
  friend bool operator==(const ReservedPeriod&, const ReservedPeriod&) = default;
};

// May the task be on its GPUs meanwhile?
bool IsFor(const Reservation& booking, const TaskRequest& request);
// "ada, account vision", "nobody".
std::string WhomFor(const Reservation& booking);
// "2 of a100", "GPU-1, GPU-2", "all GPUs".
std::string WhichOf(const Reservation& booking);

// What is asked of the periods of one GPU, in order of their beginnings.
struct BookedStart {
  Time from{};
  Time to{};                           // the task may run for so long, or a new one is kept away
  std::span<const ReservationId> own;  // that are for it
};
// The first that it would run into, which is not for it; null: none.
const ReservedPeriod* RunsInto(std::span<const ReservedPeriod* const> periods,
                               const BookedStart& start);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::Repeat>
    carma::base::kWordsOf<carma::core::Repeat> = carma::core::kRepeatWords;
