// Stores peaks measured in earlier runs, and uses them to predict the peak of the next run of the
// same training job.
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
  std::size_t runs = 0;              // number of runs that the prediction is based on
  std::vector<std::string> remarks;  // one sentence each
};

// Predicts from `runs`, which must be newest first and not empty. If any of them are on `gpu_type`,
// uses only those.
//   point  weighted 75th percentile of the peaks. Weights halve every two runs, so the point rises
//          immediately but takes four runs to fall.
//   bound  highest peak that has at least a twentieth of the newest peak's weight, plus a margin.
//          The margin is 10 % for a single run and falls to 3 % for four or more. It was chosen,
//          not fitted. It covers peaks between two readings, and algorithm searches by cuDNN.
// If no run has succeeded since the last run that ran out of memory, point and bound are at least
// 10 % above the memory of that run.
Recollection Recollect(std::span<const task::Observation> runs, const std::string& gpu_type);

// The GPU types of a server, with their speed relative to the fastest type (core::PacesOf).
using Paces = std::map<std::string, double>;

// How a task with these earlier runs uses a GPU of type `gpu_type`. runs: as for Recollect(), but
// may be empty. The SM activity comes from the newest run on this type, or else from the newest run
// on any type. The run time is the median of the newest five runs on the server's types, converted
// to the fastest type. `gpu_type` always counts as one of the server's types.
core::Profile ProfileFrom(std::span<const task::Observation> runs, const std::string& gpu_type,
                          const Paces& paces);

// Calibration uses only this many of the newest runs, because a server's drivers, libraries and
// users change.
inline constexpr std::size_t kCalibrationRuns = 1'000;

// The observations of all runs. Thread-safe; no call blocks for long.
class History {
 public:
  History() = default;
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Must be called in chronological order. Drops the oldest runs that exceed the limits in
  // task/verdict/observation.h.
  void Add(task::Observation observation);
  // Drops the calibration data, but keeps the peaks.
  void ForgetCalibration();

  // OfSignature() and OfKin() return the newest runs first, at most task::kRunsPerSignature.
  std::vector<task::Observation> OfSignature(const std::string& signature) const;
  std::vector<task::Observation> OfKin(const std::string& kin) const;
  // Calibrates from the newest kCalibrationRuns runs with a formula result. The outcome is cached
  // for each type until the next Add.
  Site SiteFor(const std::string& gpu_type) const;
  // All observations, oldest first. Adding them to an empty history recreates this one.
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
  // The two indexes below save Calibrate() from reading all runs. with_formula_: the runs with a
  // formula result. newest_: the newest of these for each GPU type and signature, without runs that
  // ran out of memory.
  std::set<std::uint64_t> with_formula_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> newest_;
  mutable std::map<std::string, Site> sites_;  // by GPU type; "": any other type; filled on demand
};

}  // namespace carma::estimate
