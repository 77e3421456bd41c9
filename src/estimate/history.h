// Measured peaks of earlier runs, for predicting the next run of the same training.
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
  std::size_t runs = 0;              // on which it is based
  std::vector<std::string> remarks;  // one sentence each
};

// runs: newest first, at least one. Those on `gpu_type` are used, or all of them if there are none.
// point: the peak that three quarters of the runs' weight lie at or below. Each run weighs half as
// much as the second run after it, so that a rise counts at once and a fall after four runs. bound:
// the highest peak that weighs at least a twentieth of the newest, widened by 10 % for a lone run
// down to 3 % from four runs on (what a reading once a second may miss, and what cuDNN's search for
// algorithms adds now and then; chosen, not fitted). If no run has succeeded since one ran out of
// memory, the need is higher than what that run had: point and bound are then at least a tenth
// above that.
Recollection Recollect(std::span<const task::Observation> runs, const std::string& gpu_type);

// GPU types of a server, and how fast each is relative to the fastest of them (core::PacesOf).
using Paces = std::map<std::string, double>;

// How a task with these runs uses a GPU of that type. runs: as above, but may be empty. The SM
// activity is that of the newest run, on that type if there is one. The run time is the median of
// the newest five runs on the server's types, converted to the fastest type; `gpu_type` always
// counts as one of these types.
core::Profile ProfileFrom(std::span<const task::Observation> runs, const std::string& gpu_type,
                          const Paces& paces);

// A server changes (drivers, libraries, users), so older runs count less.
inline constexpr std::size_t kCalibrationRuns = 1'000;

// The observations of all runs. Safe to use from several threads; no call blocks for long.
class History {
 public:
  History() = default;
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Call in order of time; the oldest runs beyond the limits in task/verdict/observation.h are
  // dropped.
  void Add(task::Observation observation);
  // Drops what was learned about the formula and keeps the peaks.
  void ForgetCalibration();

  // Newest first, at most task::kRunsPerSignature.
  std::vector<task::Observation> OfSignature(const std::string& signature) const;
  std::vector<task::Observation> OfKin(const std::string& kin) const;
  // Calibrate() over the newest kCalibrationRuns that have a formula; cached for each type until
  // the next Add.
  Site SiteFor(const std::string& gpu_type) const;
  std::size_t size() const;
  // All observations, oldest first: adding them to an empty history makes an equal one.
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
  // An index for Calibrate(), which then need not read all runs: the runs with a formula, and the
  // newest of those that had enough memory, by GPU type and signature.
  std::set<std::uint64_t> with_formula_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> newest_;
  mutable std::map<std::string, Site> sites_;  // by GPU type, "": any other; empty: to be made
};

}  // namespace carma::estimate
