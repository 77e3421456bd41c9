// Derives findings from measured runs: solo times, slowdowns alongside other workloads, model
// parameters, and the cost of monitoring. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/verbs/profile/plan.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/workloads.h"
#include "profile/profiles.h"
#include "report/report.h"

namespace carma::cli {

// The slowdown of one workload while it shares a GPU with certain other workloads.
struct Meeting {
  ProfileMethod method = ProfileMethod::kStreams;
  std::vector<std::string> members;
  std::string workload;
  report::Estimated slowdown;
  double median_slowdown = 1;
  std::optional<double> predicted;  // slowdown predicted by the fitted parameters
};

struct WatchingCost {
  std::string workload;
  Watcher watcher = Watcher::kCarma;
  report::Estimated share;  // additional run time, relative to the run without a watcher
};

struct TypeFindings {
  std::string gpu_type;
  std::vector<profile::WorkloadProfile> profiles;
  std::vector<Meeting> meetings;
  std::optional<double> mps_error;  // mean |log(predicted / measured)| of the pairs
  std::optional<double> streams_a;  // set if pairs without MPS were measured
  std::optional<double> streams_error;
  std::vector<WatchingCost> watching;
};

// Returns the findings for each GPU type on which any workload ran alone, ordered by the first run
// on that type.
std::vector<TypeFindings> FindingsOf(std::span<const ProfiledWorkload> workloads,
                                     std::span<const MeasuredRun> runs);

// A workload's median solo time and load time over the runs so far; empty if it has not run alone.
std::optional<KnownTime> KnownTimeOf(const ProfiledWorkload& workload, const std::string& gpu_type,
                                     std::span<const MeasuredRun> runs);

struct Interval {
  double from_s = 0;
  double to_s = 0;
};
// Returns a process's slowdown while all its neighbours compute. Assumes that the process runs at
// full speed while no neighbour computes, and that each computing neighbour adds the same amount to
// the slowdown. Empty if the process ran alongside others only briefly. time_s: solo computing
// time. others: the neighbours' computing intervals, in any order.
std::optional<double> SlowdownOf(double time_s, const Interval& own,
                                 std::span<const Interval> others, std::size_t neighbours);

}  // namespace carma::cli
