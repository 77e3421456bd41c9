// A set of changes to the database. Store::Apply() makes all of them durable, or none of them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "store/store.h"

namespace carma::store {

// The part of a stored task that changes over time.
struct RecordRow {
  core::TaskRecord record;
  std::vector<std::string> gpu_uuids;  // the GPUs of its placement, in the same order
};

struct DrainReason {
  std::string why;
  std::optional<core::Time> empty_by = {};
};

struct Batch {
  std::map<core::TaskId, RecordRow> records;  // only the last record of each task
  std::vector<StoredEvent> events;
  std::vector<GpuUsage> usage;
  std::vector<LineWait> line_waits;
  std::vector<Forecast> forecasts;
  std::vector<task::Observation> observations;
  std::vector<EndedAttempt> attempts;
  std::vector<EditedDescription> descriptions;
  std::vector<Notice> notices;         // new notices
  std::vector<Notice> notice_results;  // for notices already stored
  bool forget_calibration = false;
  // Changed drains, keyed by the GPU's UUID and whether a health rule set the drain. An empty value
  // removes the drain.
  std::map<std::pair<std::string, bool>, std::optional<DrainReason>> drains;
  std::vector<std::optional<Closing>>
      closings;  // the last entry applies; if it is empty, the server is open
  std::vector<ReservationRow> reservations;
  std::vector<JobReturnRow> job_returns;

  bool Empty() const;
  // Returns kLater if a restart would recover all changes anyway, otherwise kNow. passing: tasks
  // that would not survive a power failure.
  Durability Urgency(const std::set<core::TaskId>& passing = {}) const;
};

// All kinds of rows, for Empty() and Urgency(). Does not compile if a member of Batch is missing.
inline auto Kinds(const Batch& batch) {
  const auto& [records, events, usage, line_waits, forecasts, observations, attempts, descriptions,
               notices, notice_results, forget_calibration, drains, closings, reservations,
               job_returns] = batch;
  return std::tie(records, events, usage, line_waits, forecasts, observations, attempts,
                  descriptions, notices, notice_results, forget_calibration, drains, closings,
                  reservations, job_returns);
}

}  // namespace carma::store
