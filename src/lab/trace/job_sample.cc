#include "lab/trace/job_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/trace/job_statistics.h"

namespace carma::trace {

using base::Duration;

namespace {

constexpr std::size_t kProfileBins = 24;
using Profile = std::array<double, kProfileBins>;

constexpr std::array kBurstQuantiles{0.0, 0.25, 0.50, 0.75, 0.90, 0.95};
// Limits the number of draws from a long trace, because every draw reads all jobs.
constexpr std::size_t kLookedAt = 10'000'000;  // jobs read for each gap
constexpr std::size_t kFewestDraws = 4;
constexpr std::size_t kMostDraws = 100;

// One random sample of the eligible jobs.
struct Draw {
  std::vector<std::uint32_t> kept;
  double gpu_seconds = 0;
  double span_s = 0;  // between its first and last submission
  double cv = 0;
  Profile profile{};
  // Mean number of GPUs that the jobs keep busy.
  double Gpus() const {
    return span_s > 0 ? gpu_seconds / span_s : std::numeric_limits<double>::infinity();
  }
};

// Measures how closely a draw resembles the whole trace.
class Measure {
 public:
  explicit Measure(const JobTrace& trace) : trace_(trace) {
    const Duration first = trace.jobs.front().submit;
    span_ = trace.jobs.back().submit - first;
    by_hour_ = trace.start_ms && span_ >= std::chrono::hours(24);
    std::vector<std::uint32_t> all(trace.jobs.size());
    std::iota(all.begin(), all.end(), 0U);
    whole_ = Look(std::move(all));
  }

  Draw Look(std::vector<std::uint32_t> kept) const {
    Draw draw{.kept = std::move(kept)};
    const auto count = static_cast<double>(draw.kept.size());
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < draw.kept.size(); ++i) {
      const Job& job = trace_.jobs[draw.kept[i]];
      draw.gpu_seconds += GpuSeconds(job);
      draw.profile[BinOf(job)] += 1 / count;
      if (i == 0) continue;
      const double gap = base::Seconds(job.submit - trace_.jobs[draw.kept[i - 1]].submit);
      sum += gap;
      squares += gap * gap;
    }
    draw.span_s = sum;
    if (sum > 0) {
      const double mean = sum / (count - 1);
      draw.cv = std::sqrt(std::max(0.0, squares / (count - 1) - mean * mean)) / mean;
    }
    return draw;
  }

  // How much the draw differs from the whole trace. wanted_share: the draw's intended share of the
  // load or, with by_jobs, of the jobs.
  double Difference(const Draw& draw, double wanted_share, bool by_jobs) const {
    const double share =
        by_jobs ? static_cast<double>(draw.kept.size()) / static_cast<double>(whole_.kept.size())
                : draw.Gpus() / whole_.Gpus();
    const double cv_ratio = whole_.cv > 0 && draw.cv > 0 ? draw.cv / whole_.cv : 1;
    return std::abs(std::log(share / wanted_share)) + std::abs(std::log(cv_ratio)) + Distance(draw);
  }
  double Distance(const Draw& draw) const {
    double distance = 0;
    for (std::size_t i = 0; i < kProfileBins; ++i)
      distance += std::abs(draw.profile[i] - whole_.profile[i]) / 2;
    return distance;
  }
  const Draw& whole() const { return whole_; }

 private:
  std::size_t BinOf(const Job& job) const {
    if (by_hour_) {
      const std::int64_t hours = (*trace_.start_ms + job.submit.count()) / 3'600'000;
      return static_cast<std::size_t>(hours % 24);
    }
    if (span_ <= Duration(0)) return 0;
    const double part =
        base::Seconds(job.submit - trace_.jobs.front().submit) / base::Seconds(span_);
    return std::min(static_cast<std::size_t>(part * kProfileBins), kProfileBins - 1);
  }

  const JobTrace& trace_;
  Duration span_{};
  bool by_hour_ = false;
  Draw whole_;
};

// Candidates for the largest gap between jobs of one burst.
std::vector<Duration> BurstGaps(const std::vector<Job>& jobs) {
  std::vector<Duration> gaps;
  gaps.reserve(jobs.size());
  for (std::size_t i = 1; i < jobs.size(); ++i) gaps.push_back(jobs[i].submit - jobs[i - 1].submit);
  std::ranges::sort(gaps);
  std::vector<Duration> bursts{Duration(-1)};  // -1: every job is its own burst
  for (const double quantile : kBurstQuantiles) {
    if (gaps.empty()) break;
    const auto place = static_cast<std::size_t>(quantile * static_cast<double>(gaps.size() - 1));
    if (gaps[place] > bursts.back()) bursts.push_back(gaps[place]);
  }
  return bursts;
}

std::vector<std::uint32_t> Thin(const std::vector<Job>& jobs, Duration burst_gap, double share,
                                base::Rng& rng) {
  std::vector<std::uint32_t> kept;
  bool keep = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const bool same_burst = i > 0 && jobs[i].submit - jobs[i - 1].submit <= burst_gap;
    if (!same_burst) keep = rng.Uniform() < share;
    if (keep) kept.push_back(static_cast<std::uint32_t>(i));
  }
  return kept;
}

Result<Draw> BestDraw(const JobTrace& trace, const Measure& measure, double share, bool by_jobs,
                      std::uint64_t seed) {
  base::Rng rng(seed);
  std::optional<Draw> best;
  double least = 0;
  const std::size_t draws = std::clamp(kLookedAt / trace.jobs.size(), kFewestDraws, kMostDraws);
  for (const Duration burst_gap : BurstGaps(trace.jobs)) {
    for (std::size_t i = 0; i < draws; ++i) {
      Draw draw = measure.Look(Thin(trace.jobs, burst_gap, share, rng));
      if (draw.kept.empty()) continue;
      const double difference = measure.Difference(draw, share, by_jobs);
      if (best && difference >= least) continue;
      least = difference;
      best = std::move(draw);
    }
  }
  if (!best) {
    return Invalid("the sample would be empty, because all jobs were submitted within " +
                   base::FormatSpan(trace.jobs.back().submit - trace.jobs.front().submit) +
                   "; request a higher load or a number of tasks");
  }
  return *std::move(best);
}

// Scales all times so that the jobs produce this load. Returns kInvalid if all jobs arrive at the
// same time, or if the last job would arrive later than kMaxJobSubmit.
Result<double> ScaleTime(JobTrace& trace, double gpu_seconds, double wanted_gpus) {
  const double span_s = base::Seconds(trace.jobs.back().submit);
  const double factor = span_s > 0 ? gpu_seconds / wanted_gpus / span_s : 0;
  if (factor <= 0 || factor * span_s > base::Seconds(kMaxJobSubmit))
    return Invalid("the times cannot be scaled to the requested load");
  for (Job& job : trace.jobs)
    job.submit = Duration(std::llround(static_cast<double>(job.submit.count()) * factor));
  trace.start_ms.reset();
  return factor;
}

}  // namespace

Result<Unit> KeepJobs(JobTrace& trace, const std::function<bool(const Job&)>& wanted) {
  std::erase_if(trace.jobs, [&](const Job& job) { return !wanted(job); });
  if (trace.jobs.empty()) return Invalid("no matching jobs");
  StartAtFirstJob(trace);
  return Unit{};
}

Result<SampleFacts> SampleJobs(JobTrace& trace, const SampleOptions& options) {
  SampleFacts facts;
  std::erase_if(trace.jobs, [&](const Job& job) {
    const bool too_large = WholeGpus(job) > options.gpus;
    const bool no_duration = !job.duration || *job.duration == Duration(0);
    facts.too_large += too_large ? 1 : 0;
    facts.no_duration += !too_large && no_duration ? 1 : 0;
    return too_large || no_duration;
  });
  facts.from = trace.jobs.size();
  if (trace.jobs.empty()) {
    return Invalid("no job with a duration fits a server with " +
                   base::Counted(options.gpus, "GPU"));
  }
  const Measure measure(trace);
  facts.cv_before = measure.whole().cv;
  const double load = options.load.value_or(1);
  double share = load * options.gpus / measure.whole().Gpus();
  if (options.scale_time) share = 1;
  if (options.tasks)
    share = static_cast<double>(*options.tasks) / static_cast<double>(trace.jobs.size());
  Draw draw = measure.whole();
  if (share < 1)
    draw = CARMA_TRY(BestDraw(trace, measure, share, options.tasks.has_value(), options.seed));
  facts.load = draw.span_s > 0 ? draw.Gpus() / options.gpus : 0;
  facts.cv_after = draw.cv;
  facts.profile_distance = measure.Distance(draw);
  // `kept` is in ascending order, so no job is overwritten before it is moved.
  for (std::size_t i = 0; i < draw.kept.size(); ++i) trace.jobs[i] = trace.jobs[draw.kept[i]];
  trace.jobs.resize(draw.kept.size());
  StartAtFirstJob(trace);
  if (options.scale_time) {
    facts.time_factor = CARMA_TRY(ScaleTime(trace, draw.gpu_seconds, load * options.gpus));
    facts.load = load;
  }
  return facts;
}

}  // namespace carma::trace
