#include "lab/trace/job_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace carma::trace {

using base::Duration;

namespace {

constexpr double kBurst = 0.4;  // probability that the next job belongs to the same burst
constexpr double kBurstGapS = 25;
constexpr double kPauseGapS = 235;
constexpr double kBuiltInMeanGapS = kBurst * kBurstGapS + (1 - kBurst) * kPauseGapS;
// Fraction of jobs by GPU count.
constexpr std::pair<int, double> kGpuShares[] = {{1, 0.71}, {2, 0.04}, {4, 0.14}, {8, 0.11}};
constexpr double kMedianDurationS = 940;
constexpr double kLogDeviation = 2.18;
constexpr double kMaxDurationS = 30 * 86400.0;

}  // namespace

JobGenerator::JobGenerator(const GeneratorOptions& options)
    : rng_(options.seed), max_gpus_(options.max_gpus.value_or(kMaxJobGpus)) {
  if (options.mean_gap_s) stretch_ = *options.mean_gap_s / kBuiltInMeanGapS;
}

Result<JobGenerator> JobGenerator::Fit(const JobTrace& trace, const GeneratorOptions& options) {
  JobGenerator generator(options);
  Duration before{0};
  double sum_ms = 0;
  for (const Job& job : trace.jobs) {
    if (!job.duration || WholeGpus(job) > generator.max_gpus_) continue;
    Job copy = job;
    copy.submit = generator.pool_.empty() ? Duration(0) : job.submit - before;
    before = job.submit;
    sum_ms += static_cast<double>(copy.submit.count());
    generator.pool_.push_back(copy);
  }
  const std::size_t jobs = generator.pool_.size();
  if (jobs < 2) {
    return Invalid("nothing to fit: fewer than two jobs have a duration and use at most " +
                   base::Counted(generator.max_gpus_, "GPU"));
  }
  // The first job has no predecessor, so it gets the mean gap, which preserves the rate.
  const double mean_ms = sum_ms / static_cast<double>(jobs - 1);
  generator.pool_.front().submit = Duration(std::llround(mean_ms));
  generator.stretch_ = 1;
  if (options.mean_gap_s && mean_ms > 0) generator.stretch_ = *options.mean_gap_s * 1000 / mean_ms;
  generator.new_run_probability_ = 1 / std::sqrt(static_cast<double>(jobs));
  return generator;
}

Job JobGenerator::Copied() {
  if (first_ || rng_.Uniform() < new_run_probability_) next_ = rng_.Below(pool_.size());
  Job job = pool_[next_];
  next_ = (next_ + 1) % pool_.size();
  return job;
}

Job JobGenerator::MadeUp() {
  const double mean_s = rng_.Uniform() < kBurst ? kBurstGapS : kPauseGapS;
  const double gap_s = rng_.Exponential(mean_s);
  double possible = 0;
  for (const auto& [size, share] : kGpuShares) possible += size <= max_gpus_ ? share : 0;
  double ticket = rng_.Uniform() * possible;
  int gpus = 1;
  for (const auto& [size, share] : kGpuShares) {
    if (size > max_gpus_ || ticket < 0) break;
    gpus = size;
    ticket -= share;
  }
  const double duration_s = kMedianDurationS * std::exp(kLogDeviation * rng_.Normal());
  return {.submit = Duration(std::llround(gap_s * 1000)),
          .duration = Duration(1000 * std::llround(std::clamp(duration_s, 1.0, kMaxDurationS))),
          .gpu_milli = gpus * 1000};
}

Job JobGenerator::Next() {
  Job job = pool_.empty() ? MadeUp() : Copied();
  if (!first_) now_ms_ += static_cast<double>(job.submit.count()) * stretch_;
  first_ = false;
  job.submit = Duration(std::llround(now_ms_));
  return job;
}

}  // namespace carma::trace
