// What measured runs say: times alone, slowdowns beside others, the parameters of the models, and
// what watching costs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/verbs/profile/plan.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/workloads.h"
#include "profile/profiles.h"

namespace carma::cli {

// Of some values; sd: standard deviation (n - 1; 0 for one).
struct Spread {
  double mean = 0;
  double sd = 0;
  int count = 0;
  double median = 0;
};
Spread SpreadOf(std::span<const double> values);

// One workload among the same others: its time there over its time alone.
struct Meeting {
  ProfileMethod method = ProfileMethod::kStreams;
  std::vector<std::string> members;
  std::string workload;
  Spread slowdown;
  std::optional<double> predicted;  // by the fitted parameters
};

struct WatchingCost {
  std::string workload;
  Watcher watcher = Watcher::kCarma;
  Spread share;  // of the run time, beyond that beside nobody
};

struct TypeFindings {
  std::string gpu_type;
  std::vector<profile::WorkloadProfile> profiles;
  std::vector<Meeting> meetings;
  std::optional<double> mps_error;  // mean |log(predicted / seen)| of the pairs
  std::optional<double> streams_a;  // where pairs without MPS were measured
  std::optional<double> streams_error;
  std::vector<WatchingCost> watching;
};

// Of each type of GPU on which a workload ran alone, in the order of their first runs.
std::vector<TypeFindings> FindingsOf(std::span<const ProfiledWorkload> workloads,
                                     std::span<const MeasuredRun> runs);

// Time alone and load of a workload, medians over the runs so far; empty: none was measured.
std::optional<KnownTime> KnownTimeOf(const ProfiledWorkload& workload, const std::string& gpu_type,
                                     std::span<const MeasuredRun> runs);

// The factor by which a process of the group took longer than alone while others computed, from
// when each of them computed: between its neighbours' coming and going it got on as alone. Where
// more than two meet, fewer neighbours are held to cost in proportion to their number. time_s:
// alone, of computing; intervals: of the others, in any order. Empty: too little of it was beside
// others.
struct Interval {
  double from_s = 0;
  double to_s = 0;
};
std::optional<double> SlowdownOf(double time_s, const Interval& own,
                                 std::span<const Interval> others, std::size_t neighbours);

}  // namespace carma::cli
