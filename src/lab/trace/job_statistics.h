// Statistics of a cluster trace: number, sizes, durations and arrivals of its jobs, and their
// concurrent demand for GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/trace/job_trace.h"

namespace carma::trace {

// Statistics of a set of numbers; all 0 for an empty set.
struct Spread {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation of the population
  double min = 0, p05 = 0, p25 = 0, p50 = 0, p75 = 0, p95 = 0, p99 = 0, max = 0;
};
// Quantiles interpolate linearly between the two nearest sorted numbers. Reorders `numbers`.
Spread SpreadOf(std::vector<double>& numbers);

struct Arrivals {
  Spread gaps_s;
  double cv = 0;          // deviation / mean of the gaps; 1 for a Poisson process
  double burstiness = 0;  // (cv - 1) / (cv + 1), Goh and Barabási 2008: -1 regular … 1 bursty
  double memory = 0;      // correlation of a gap with the next one (same source)
  // Variance / mean of the number of arrivals per hour; 1 for a Poisson process. Empty if the trace
  // is shorter than a day.
  std::optional<double> dispersion;
  std::size_t together = 0;  // arrivals in the same millisecond as the previous arrival
};

// Demand for GPUs if every job had started as soon as it was submitted and shared no GPU.
struct Concurrency {
  double span_s = 0;  // from the first submission to the end of the last job
  double mean_gpus = 0;
  double peak_gpus = 0;
  std::size_t peak_jobs = 0;
  double peak_s = 0;                // time at which the demand for GPUs first reaches its peak
  std::vector<double> mean_slices;  // mean demand for GPUs in equal slices of the span
};

struct GroupFacts {
  std::string name;  // "" for jobs without a name
  std::size_t jobs = 0;
  double gpu_hours = 0;
};

struct JobStatistics {
  std::size_t jobs = 0;
  std::map<std::string, std::size_t> statuses;    // by JobStatusName, "unknown"
  std::map<std::int32_t, std::size_t> gpu_milli;  // number of jobs by their total GPUs
  Spread durations_s;                             // of jobs with known duration
  double last_submit_s = 0;
  double gpu_hours = 0;
  double offered_gpus = 0;  // GPU seconds / time span of submissions
  Arrivals arrivals;
  Concurrency concurrency;
  // Arrivals in each hour of the day; empty if the hour is not known.
  std::vector<std::size_t> by_hour;
  std::vector<GroupFacts> users;  // by GPU hours, largest first
  std::vector<GroupFacts> vcs;
};

// slices: size of Concurrency::mean_slices, at least 1. The trace must have at least one job.
JobStatistics Describe(const JobTrace& trace, std::size_t slices);
// Statistics of a trace's submission times only.
Arrivals DescribeArrivals(const std::vector<Job>& jobs);

}  // namespace carma::trace
