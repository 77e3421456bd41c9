// A reservation of GPUs in the API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"

namespace carma::api {

// A reservation of GPUs for a period.
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
  std::vector<std::uint64_t> others;

  static void VisitFields(auto& field, auto& reservation) {
    field("id", reservation.id, "Its number, from 1, never reused.");
    field("made_by", reservation.made_by, "User who made it.");
    field("users", reservation.users, "Users that may use the GPUs.");
    field("accounts", reservation.accounts, "Accounts that may use the GPUs.");
    field("classes", reservation.classes,
          "Classes of tasks that may use the GPUs. All three empty: no tasks.");
    field("gpus", reservation.gpus, "UUIDs of its GPUs; empty: all.");
    field("gpu_type", reservation.gpu_type, "Only GPUs of this model; empty: any.");
    field("count", reservation.count, "How many GPUs; null: all.");
    field("from_ms", reservation.from_ms, "When it first begins.");
    field("length_s", reservation.length_s, "How long it lasts.");
    field("repeat", reservation.repeat, "How often it repeats, in the server's local time.",
          {.words = "once,daily,weekdays,weekly"});
    field("until_ms", reservation.until_ms, "No repetition begins after this time; null: no end.");
    field("why", reservation.why, "Its purpose, in one line.");
    field("next_from_ms", reservation.next_from_ms, "Its present or next start; null: it is over.");
    field("next_to_ms", reservation.next_to_ms, "When that period ends.");
    field("holds", reservation.holds, "It is in force now.");
    field("gpu_indices", reservation.gpu_indices, "The GPUs that are reserved in that period.");
    field("others", reservation.others,
          "Tasks of other users that run there and may not have ended at its start; they may "
          "finish.");
  }
};

}  // namespace carma::api
