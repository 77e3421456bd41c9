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
// With Fit(), the jobs are a stationary bootstrap (Politis and Romano 1994) of the trace's jobs.
// Runs of consecutive jobs are copied, each job with the gap before it, its GPUs, duration, user,
// cluster and status. A run starts at a random job and continues with probability 1 - 1/sqrt(n),
// where n is the number of jobs. So gaps, sizes and durations keep the trace's joint distribution,
// and bursts and series of identical jobs remain intact. The time of day is lost.
//
// Without Fit(), the gaps follow the project's demonstration trace. They are exponentially
// distributed. With probability 0.4, the next job belongs to the same burst after a mean gap of 25
// s; otherwise the mean gap is 235 s. Jobs have 1, 2, 4 or 8 GPUs in 71, 4, 14 and 11 % of the
// cases. Their durations are log-normal with median 940 s and log deviation 2.18, at most 30 days.
// GPUs and durations are fitted to the published Philly trace (GPU counts of its jobs that last at
// least 20 minutes, durations of all its jobs).
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
