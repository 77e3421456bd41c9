// Extracts parts of a cluster trace: a time window, or a sample small enough for a server with a
// few GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "lab/trace/job_trace.h"

namespace carma::trace {

// Keeps the jobs for which `wanted` is true and shifts the trace to start at the first of them.
// Returns kInvalid if no job is left.
Result<Unit> KeepJobs(JobTrace& trace, const std::function<bool(const Job&)>& wanted);

struct SampleOptions {
  int gpus = 4;  // number of GPUs in the server
  // GPU time of the sample / (gpus x time span of its submissions). An empty value means 1.
  std::optional<double> load;
  std::optional<std::size_t> tasks;  // approximate number of jobs instead of a load
  // Stretches or compresses the times of the sample (all jobs, or `tasks` of them) until it has
  // this load.
  bool scale_time = false;
  std::uint64_t seed = 1;
};

// Comparison of the sample with its source.
struct SampleFacts {
  std::size_t too_large = 0;    // jobs skipped because they need more GPUs than the server has
  std::size_t no_duration = 0;  // jobs skipped because their duration is unknown
  std::size_t from = 0;         // number of jobs that the sample was drawn from
  double load = 0;              // load that the sample has
  double cv_before = 0;         // Arrivals::cv of the source
  double cv_after = 0;
  double profile_distance = 0;  // total variation between the two arrival profiles, 0..1
  double time_factor = 1;       // factor by which times were stretched
};

// Draws a random sample of the jobs with the requested load and the trace's arrival pattern.
//
// If each job were drawn separately, the arrivals would look like a Poisson process. If whole
// bursts were drawn (jobs no further apart than some gap), the arrivals would be too bursty. So
// several samples are drawn for each of several gaps, from 0 to the 95th percentile, and the sample
// most similar to the trace is used. Samples are compared by load, by the CV of the gaps, and by
// when jobs arrive: by hour of the day or, if that is unknown or the trace is shorter than a day,
// by 24ths of its span.
//
// The sample is shifted to start at its first job. A trace with less than the requested load is
// used whole. Returns kInvalid if no job is usable or sampled.
Result<SampleFacts> SampleJobs(JobTrace& trace, const SampleOptions& options);

}  // namespace carma::trace
