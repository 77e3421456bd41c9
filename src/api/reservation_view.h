// A GPU reservation as the API represents it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"

namespace carma::api {

struct ReservationView {
  std::uint64_t id = 0;
  std::string made_by;
  std::vector<std::string> users;
  std::vector<std::string> accounts;
  std::vector<std::string> classes;
  std::vector<std::string> gpus;
  std::string gpu_type;
  std::optional<int> count;
  std::int64_t from_ms = 0;
  double length_s = 0;
  std::string repeat;
  std::optional<std::int64_t> until_ms;
  std::string why;
  std::optional<std::int64_t> next_from_ms;
  std::optional<std::int64_t> next_to_ms;
  bool holds = false;
  std::vector<std::int64_t> gpu_indices;
  std::vector<std::string> missing_gpus;
  std::vector<std::uint64_t> others;

  static void VisitFields(auto& field, auto& reservation) {
    field("id", reservation.id, "Reservation number, from 1, never reused.");
    field("made_by", reservation.made_by, "User who made the reservation.");
    field("users", reservation.users, "Users whose tasks may run on the GPUs.");
    field("accounts", reservation.accounts, "Accounts whose tasks may run on the GPUs.");
    field("classes", reservation.classes,
          "Classes of service whose tasks may run on the GPUs. If users, accounts and classes are "
          "all empty, no task may run on them.");
    field("gpus", reservation.gpus, "UUIDs of the GPUs to choose from; empty means all GPUs.");
    field("gpu_type", reservation.gpu_type, "Model of the GPUs to choose from; empty means any.");
    field("count", reservation.count, "Number of GPUs; null means all of them.");
    field("from_ms", reservation.from_ms, "Start of the first period.");
    field("length_s", reservation.length_s,
          "Length of a period, measured on the local clock if the reservation repeats.");
    field("repeat", reservation.repeat,
          "How often the reservation repeats, in the server's local time.",
          {.words = "once,daily,weekdays,weekly"});
    field("until_ms", reservation.until_ms,
          "Time after which no repetition begins; null if it repeats forever.");
    field("why", reservation.why, "Purpose of the reservation, in one line.");
    field("next_from_ms", reservation.next_from_ms,
          "Start of the current or next period; null if the reservation is over.");
    field("next_to_ms", reservation.next_to_ms, "End of the current or next period.");
    field("holds", reservation.holds, "Whether the reservation is in force now.");
    field("gpu_indices", reservation.gpu_indices, "GPUs reserved for the current or next period.");
    field("missing_gpus", reservation.missing_gpus, "UUIDs in gpus that the server no longer has.");
    field("others", reservation.others,
          "Tasks outside the reservation that may still be running on the GPUs when the period "
          "starts; they are allowed to finish.");
  }
};

}  // namespace carma::api
