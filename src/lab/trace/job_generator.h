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
  std::optional<double> mean_gap_s;  // stretches or compresses all gaps to this mean
  int max_gpus = kMaxJobGpus;        // jobs of more GPUs are not made
};

// Generates job after job, the first at time 0; equal seeds give equal jobs on every machine.
//
// Fitted: a stationary bootstrap (Politis and Romano 1994) of the trace's jobs. Runs of consecutive
// jobs are copied, each with the gap before it, its GPUs, duration, user, cluster and status; a run
// starts at a random job and continues with probability 1 - 1/sqrt(n), n being the number of jobs.
// So gaps, sizes and durations have the trace's joint distribution, and bursts and series of equal
// jobs stay whole. The time of day is lost.
//
// Built in: gaps as in the project's demonstration trace: with probability 0.4 exponential of mean
// 25 s (the same burst), else of mean 235 s; 1, 2, 4 or 8 GPUs for 71, 4, 14 and 11 % of the jobs,
// and durations log-normal of median 940 s and log deviation 2.18, at most 30 days: both fitted to
// the published Philly trace (GPUs of its jobs of at least 20 minutes, durations of all).
class JobGenerator {
 public:
  explicit JobGenerator(const GeneratorOptions& options);
  // Jobs without a duration, or with more than max_gpus, are not copied. Errors: kInvalid: fewer
  // than two jobs are left.
  static Result<JobGenerator> Fit(const JobTrace& trace, const GeneratorOptions& options);

  Job Next();
  // Jobs that Fit() could copy; 0 without a fit.
  std::size_t fitted() const { return pool_.size(); }

 private:
  Job Copied();
  Job MadeUp();

  base::Rng rng_;
  int max_gpus_;
  double stretch_ = 1;
  std::vector<Job> pool_;  // fitted jobs; `submit` is the gap before the job
  std::size_t next_ = 0;   // in pool_
  double new_run_probability_ = 1;
  double now_ms_ = 0;
  bool first_ = true;
};

}  // namespace carma::trace
