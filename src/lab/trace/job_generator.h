// Generates cluster traces of any length, fitted to a real one or to built-in defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "lab/trace/job_trace.h"

namespace carma::trace {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  std::optional<double> mean_gap_s;  // all gaps are scaled to have this mean
  std::optional<int> max_gpus;       // larger jobs are not generated
};

// Generates one job after another, the first at time 0. The same seed gives the same jobs on every
// machine.
//
// With Fit(), copies random sequences of consecutive jobs from the trace (a stationary bootstrap,
// Politis and Romano 1994). Each job keeps the gap before it and its GPUs, duration, user, cluster
// and status. After each job, the sequence continues with probability 1 - 1/sqrt(n), where n is the
// number of jobs. This preserves bursts, series of identical jobs, and the joint distribution of
// gaps, sizes and durations, but not the time of day.
//
// Without Fit(), gaps follow the project's demonstration trace: they are exponentially distributed,
// with a mean of 25 s within a burst (probability 0.4) or 235 s between bursts. 71 % of the jobs
// have 1 GPU, 4 % have 2, 14 % have 4, and 11 % have 8. Durations are log-normal with median 940 s
// and log deviation 2.18, and at most 30 days. GPUs and durations are fitted to the published
// Philly trace: GPUs to its jobs that last at least 20 minutes, durations to all its jobs.
class JobGenerator {
 public:
  explicit JobGenerator(const GeneratorOptions& options);
  // Jobs without a duration, or with more than max_gpus GPUs, are not copied. Returns kInvalid if
  // fewer than two jobs are left.
  static Result<JobGenerator> Fit(const JobTrace& trace, const GeneratorOptions& options);

  Job Next();
  // Number of jobs available for copying; 0 without Fit().
  std::size_t fitted() const { return pool_.size(); }

 private:
  Job Copied();
  Job MadeUp();

  base::Rng rng_;
  int max_gpus_;
  double stretch_ = 1;
  std::vector<Job> pool_;  // fitted jobs; `submit` is the gap before the job
  std::size_t next_ = 0;   // position in pool_
  double new_run_probability_ = 1;
  double now_ms_ = 0;
  bool first_ = true;
};

}  // namespace carma::trace
