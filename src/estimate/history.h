// Stores measured peaks of earlier runs and predicts the next run of the same training from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/values/profile.h"
#include "estimate/calibration.h"
#include "task/verdict/observation.h"

namespace carma::estimate {

// A prediction from earlier runs.
struct Recollection {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;
  std::size_t runs = 0;              // number of runs behind the prediction
  std::vector<std::string> remarks;  // one sentence each
};

// runs: newest first, at least one. Runs on `gpu_type` are used, or all runs if there are none.
// point: three quarters of the runs' weight have a peak at or below it. Each run weighs half as
// much as the second run after it, so a rise counts at once and a fall after four runs. bound: the
// highest peak that weighs at least a twentieth of the newest, widened by 10 % for a single run
// down to 3 % from four runs on. This allows for peaks between readings one second apart and for
// occasional searches of cuDNN for algorithms; the values are chosen, not fitted. If no run has
// succeeded since a run ran out of memory, point and bound are at least a tenth above what that run
// had.
Recollection Recollect(std::span<const task::Observation> runs, const std::string& gpu_type);

// The GPU types of a server, with their speed relative to the fastest type (core::PacesOf).
using Paces = std::map<std::string, double>;

// How a task with these runs uses a GPU of this type. runs: as for Recollect(), but may be empty.
// The SM activity is that of the newest run on this type, or else of the newest run. The run time
// is the median of the newest five runs on the server's types (`gpu_type` always counts as one),
// converted to the fastest type.
core::Profile ProfileFrom(std::span<const task::Observation> runs, const std::string& gpu_type,
                          const Paces& paces);

// Number of newest runs used for calibration, because a server changes (drivers, libraries, users).
inline constexpr std::size_t kCalibrationRuns = 1'000;

// The observations of all runs. Safe to use from several threads; no call blocks for long.
class History {
 public:
  History() = default;
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Must be called in order of time. Drops the oldest runs beyond the limits in
  // task/verdict/observation.h.
  void Add(task::Observation observation);
  // Drops the observations of the formula, but keeps the peaks.
  void ForgetCalibration();

  // Both return the newest first, at most task::kRunsPerSignature.
  std::vector<task::Observation> OfSignature(const std::string& signature) const;
  std::vector<task::Observation> OfKin(const std::string& kin) const;
  // Calibrate() over the newest kCalibrationRuns with a formula. Cached for each type until the
  // next Add.
  Site SiteFor(const std::string& gpu_type) const;
  std::size_t size() const;
  // All observations, oldest first. Adding them to an empty history makes an equal history.
  std::vector<task::Observation> All() const;

 private:
  using Runs = std::map<std::string, std::set<std::uint64_t>>;  // keys of runs_, oldest first
  std::vector<task::Observation> Newest(const Runs& runs, const std::string& key) const;
  std::vector<task::Observation> Taught() const;
  void Drop(std::uint64_t key);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, task::Observation> runs_;  // in order of arrival
  std::uint64_t next_key_ = 0;
  Runs by_signature_, by_kin_;
  // An index, so that Calibrate() need not read all runs: the runs with a formula, and by GPU type
  // and signature the newest of them that had enough memory.
  std::set<std::uint64_t> with_formula_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> newest_;
  mutable std::map<std::string, Site> sites_;  // by GPU type; "": any other type; filled on demand
};

}  // namespace carma::estimate
