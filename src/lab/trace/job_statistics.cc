#include "lab/trace/job_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace carma::trace {
namespace {

using base::Duration;

constexpr double kHourS = 3600;

double Quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

// Sets only the count, mean and deviation of the result.
Spread Moments(const std::vector<double>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {.count = numbers.size(), .mean = mean, .deviation = std::sqrt(squares / count)};
}

// Correlation of each number with its successor.
double Memory(const std::vector<double>& numbers) {
  if (numbers.size() < 3) return 0;
  const std::size_t pairs = numbers.size() - 1;
  const Spread first = Moments({numbers.begin(), numbers.end() - 1});
  const Spread second = Moments({numbers.begin() + 1, numbers.end()});
  if (first.deviation == 0 || second.deviation == 0) return 0;
  double products = 0;
  for (std::size_t i = 0; i < pairs; ++i)
    products += (numbers[i] - first.mean) * (numbers[i + 1] - second.mean);
  return products / static_cast<double>(pairs) / (first.deviation * second.deviation);
}

// Variance of the hourly arrival counts, divided by their mean. An incomplete last hour is ignored.
std::optional<double> DispersionPerHour(const std::vector<Job>& jobs) {
  const Duration first = jobs.front().submit;
  const auto hours = static_cast<std::size_t>((jobs.back().submit - first) / std::chrono::hours(1));
  if (hours < 24) return std::nullopt;
  std::vector<double> counts(hours);
  for (const Job& job : jobs) {
    const auto hour = static_cast<std::size_t>((job.submit - first) / std::chrono::hours(1));
    if (hour < hours) ++counts[hour];
  }
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double squares = std::inner_product(counts.begin(), counts.end(), counts.begin(), 0.0);
  const double mean = sum / static_cast<double>(hours);
  return mean > 0 ? (squares / static_cast<double>(hours) - mean * mean) / mean : 0;
}

struct Change {
  Duration at{};
  int jobs = 0;  // 1: start, -1: end
  std::int32_t gpu_milli = 0;
};

Concurrency DescribeConcurrency(const std::vector<Job>& jobs, std::size_t slices) {
  std::vector<Change> changes;
  changes.reserve(2 * jobs.size());
  const Duration start = jobs.front().submit;
  Duration end = jobs.back().submit;
  for (const Job& job : jobs) {
    if (!job.duration || *job.duration == Duration(0)) continue;
    changes.push_back({job.submit, 1, job.gpu_milli});
    changes.push_back({job.submit + *job.duration, -1, -job.gpu_milli});
    end = std::max(end, changes.back().at);
  }
  // A job that ends when another starts makes room for it.
  std::ranges::sort(changes, [](const Change& a, const Change& b) {
    return std::tie(a.at, a.jobs) < std::tie(b.at, b.jobs);
  });

  Concurrency facts{.span_s = base::Seconds(end - start),
                    .mean_slices = std::vector<double>(slices)};
  const double slice_s = facts.span_s / static_cast<double>(slices);
  std::int64_t milli = 0;  // demand since `from`
  std::int64_t running = 0;
  double from = 0;
  double area = 0;
  for (const Change& change : changes) {
    const double until = base::Seconds(change.at - start);
    const double gpus = static_cast<double>(milli) / 1000;
    area += gpus * (until - from);
    while (from < until && slice_s > 0) {
      const auto slice = std::min(static_cast<std::size_t>(from / slice_s), slices - 1);
      const double slice_end =
          slice + 1 == slices ? until : std::min(until, slice_s * static_cast<double>(slice + 1));
      if (slice_end <= from) break;  // caused by rounding
      facts.mean_slices[slice] += gpus * (slice_end - from) / slice_s;
      from = slice_end;
    }
    from = until;
    milli += change.gpu_milli;
    running += change.jobs;
    facts.peak_jobs = std::max(facts.peak_jobs, static_cast<std::size_t>(running));
    const double gpus_now = static_cast<double>(milli) / 1000;
    if (gpus_now > facts.peak_gpus) {
      facts.peak_gpus = gpus_now;
      facts.peak_s = until;
    }
  }
  facts.mean_gpus = facts.span_s > 0 ? area / facts.span_s : 0;
  return facts;
}

std::vector<GroupFacts> Groups(const std::vector<Job>& jobs, const Names& names,
                               std::uint32_t Job::*number) {
  std::vector<GroupFacts> all(names.size());
  for (const Job& job : jobs) {
    GroupFacts& group = all[job.*number];
    ++group.jobs;
    group.gpu_hours += GpuSeconds(job) / kHourS;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].name = names.Text(static_cast<std::uint32_t>(i));
  std::erase_if(all, [](const GroupFacts& group) { return group.jobs == 0; });
  std::ranges::sort(all, [](const GroupFacts& a, const GroupFacts& b) {
    return a.gpu_hours != b.gpu_hours ? a.gpu_hours > b.gpu_hours : a.name < b.name;
  });
  return all;
}

}  // namespace

Spread SpreadOf(std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  Spread spread = Moments(numbers);
  std::ranges::sort(numbers);
  spread.min = numbers.front();
  spread.p05 = Quantile(numbers, 0.05);
  spread.p25 = Quantile(numbers, 0.25);
  spread.p50 = Quantile(numbers, 0.50);
  spread.p75 = Quantile(numbers, 0.75);
  spread.p95 = Quantile(numbers, 0.95);
  spread.p99 = Quantile(numbers, 0.99);
  spread.max = numbers.back();
  return spread;
}

Arrivals DescribeArrivals(const std::vector<Job>& jobs) {
  Arrivals arrivals;
  if (jobs.size() < 2) return arrivals;
  std::vector<double> gaps;
  gaps.reserve(jobs.size() - 1);
  for (std::size_t i = 1; i < jobs.size(); ++i)
    gaps.push_back(base::Seconds(jobs[i].submit - jobs[i - 1].submit));
  arrivals.memory = Memory(gaps);
  arrivals.gaps_s = SpreadOf(gaps);
  arrivals.together = static_cast<std::size_t>(std::ranges::count(gaps, 0.0));
  if (arrivals.gaps_s.mean > 0) {
    arrivals.cv = arrivals.gaps_s.deviation / arrivals.gaps_s.mean;
    arrivals.burstiness = (arrivals.cv - 1) / (arrivals.cv + 1);
  }
  arrivals.dispersion = DispersionPerHour(jobs);
  return arrivals;
}

JobStatistics Describe(const JobTrace& trace, std::size_t slices) {
  JobStatistics facts{.jobs = trace.jobs.size()};
  std::vector<double> durations;
  if (trace.start_ms) facts.by_hour.resize(24);
  for (const Job& job : trace.jobs) {
    const std::string_view status = JobStatusName(job.status);
    ++facts.statuses[std::string(status.empty() ? "unknown" : status)];
    ++facts.gpu_milli[job.gpu_milli];
    if (job.duration) durations.push_back(base::Seconds(*job.duration));
    facts.gpu_hours += GpuSeconds(job) / kHourS;
    if (trace.start_ms) {
      const std::int64_t hours = (*trace.start_ms + job.submit.count()) / 3'600'000;
      ++facts.by_hour[static_cast<std::size_t>(hours % 24)];
    }
  }
  facts.durations_s = SpreadOf(durations);
  facts.last_submit_s = base::Seconds(trace.jobs.back().submit);
  const double submitting_s = base::Seconds(trace.jobs.back().submit - trace.jobs.front().submit);
  if (submitting_s > 0) facts.offered_gpus = facts.gpu_hours * kHourS / submitting_s;
  facts.arrivals = DescribeArrivals(trace.jobs);
  facts.concurrency = DescribeConcurrency(trace.jobs, std::max<std::size_t>(slices, 1));
  facts.users = Groups(trace.jobs, trace.users, &Job::user);
  facts.vcs = Groups(trace.jobs, trace.vcs, &Job::vc);
  return facts;
}

}  // namespace carma::trace
