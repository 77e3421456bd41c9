// Tests the statistics, sampling, mapping and generation of cluster traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/rng.h"
#include "lab/trace/job_generator.h"
#include "lab/trace/job_mapping.h"
#include "lab/trace/job_sample.h"
#include "lab/trace/job_statistics.h"
#include "lab/trace/job_writer.h"

namespace carma::trace {
namespace {

using base::Duration;
using std::chrono::hours;
using std::chrono::seconds;

Job MakeJob(Duration submit, int gpus, Duration duration) {
  return {.submit = submit, .duration = duration, .gpu_milli = gpus * 1000};
}

// Makes a trace of `days` days with bursts of ten jobs, about 20 s apart, during the daytime. The
// arrivals are far from a Poisson process.
JobTrace BurstyTrace(int days, std::uint64_t seed = 5) {
  base::Rng rng(seed);
  JobTrace trace;
  trace.start_ms = 0;
  for (int day = 0; day < days; ++day) {
    for (int hour = 8; hour < 18; ++hour) {
      Duration at = hours(24 * day + hour) + Duration(rng.Below(1'800'000));
      for (int i = 0; i < 10; ++i) {
        trace.jobs.push_back(MakeJob(at, 1 << rng.Below(4), seconds(60 + rng.Below(20'000))));
        trace.jobs.back().line = static_cast<std::int32_t>(trace.jobs.size());
        at += Duration(rng.Below(40'000));
      }
    }
  }
  return trace;
}

std::string Written(const JobTrace& trace) {
  std::string text;
  (void)WriteJobs(trace, [&](std::string_view piece) -> Result<Unit> {
    text += piece;
    return Unit{};
  });
  return text;
}

TEST(Statistics, DescribeASmallTrace) {
  JobTrace trace;
  trace.start_ms = 3'600'000;
  trace.jobs = {MakeJob(seconds(0), 1, seconds(100)), MakeJob(seconds(10), 2, seconds(50)),
                MakeJob(seconds(10), 4, seconds(0)), MakeJob(seconds(40), 1, seconds(100))};
  trace.jobs.push_back({.submit = seconds(7200), .gpu_milli = 500});
  trace.jobs[0].user = *trace.users.Number("ann");
  const JobStatistics facts = Describe(trace, 4);
  EXPECT_EQ(facts.jobs, 5u);
  EXPECT_EQ(facts.gpu_milli,
            (std::map<std::int32_t, std::size_t>{{500, 1}, {1000, 2}, {2000, 1}, {4000, 1}}));
  EXPECT_EQ(facts.durations_s.count, 4u);
  EXPECT_DOUBLE_EQ(facts.durations_s.mean, 62.5);
  EXPECT_DOUBLE_EQ(facts.durations_s.p50, 75);
  EXPECT_DOUBLE_EQ(facts.gpu_hours * 3600, 300);
  EXPECT_DOUBLE_EQ(facts.offered_gpus, 300.0 / 7200);
  EXPECT_DOUBLE_EQ(facts.arrivals.gaps_s.mean, 1800);
  EXPECT_EQ(facts.arrivals.together, 1u);
  EXPECT_DOUBLE_EQ(facts.concurrency.peak_gpus, 4) << "1 + 2 + 1 from 40 s to 60 s";
  EXPECT_DOUBLE_EQ(facts.concurrency.peak_s, 40);
  EXPECT_EQ(facts.concurrency.peak_jobs, 3u);
  EXPECT_DOUBLE_EQ(facts.concurrency.span_s, 7200);
  EXPECT_NEAR(facts.concurrency.mean_gpus, 300.0 / 7200, 1e-12);
  ASSERT_EQ(facts.concurrency.mean_slices.size(), 4u);
  EXPECT_NEAR(facts.concurrency.mean_slices[0], 300.0 / 1800, 1e-12);
  EXPECT_DOUBLE_EQ(facts.concurrency.mean_slices[3], 0);
  EXPECT_EQ(facts.by_hour[1], 4u);
  EXPECT_EQ(facts.by_hour[3], 1u);
  ASSERT_EQ(facts.users.size(), 2u);
  EXPECT_EQ(facts.users[1].name, "ann");
}

TEST(Statistics, DistinguishBurstsFromAPoissonProcess) {
  base::Rng rng(3);
  JobTrace poisson;
  Duration at{};
  for (int i = 0; i < 20'000; ++i) {
    at += Duration(std::llround(rng.Exponential(60'000)));
    poisson.jobs.push_back(MakeJob(at, 1, seconds(1)));
  }
  const Arrivals even = DescribeArrivals(poisson.jobs);
  EXPECT_NEAR(even.cv, 1, 0.05);
  EXPECT_NEAR(even.burstiness, 0, 0.03);
  EXPECT_NEAR(even.memory, 0, 0.03);
  EXPECT_NEAR(*even.dispersion, 1, 0.15);
  const Arrivals bursty = DescribeArrivals(BurstyTrace(10).jobs);
  EXPECT_GT(bursty.cv, 3);
  EXPECT_GT(bursty.burstiness, 0.5);
  EXPECT_GT(*bursty.dispersion, 5);
}

TEST(Sample, FitsTheServerAndKeepsTheArrivals) {
  for (const int gpus : {2, 4, 8}) {
    SCOPED_TRACE(gpus);
    JobTrace trace = BurstyTrace(30);
    const std::size_t before = trace.jobs.size();
    const auto facts = SampleJobs(trace, {.gpus = gpus, .load = 0.5, .seed = 1});
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_NEAR(facts->load, 0.5, 0.1);
    EXPECT_NEAR(Describe(trace, 1).offered_gpus / gpus, facts->load, 1e-6);
    EXPECT_NEAR(std::log(facts->cv_after / facts->cv_before), 0, 0.25);
    EXPECT_LT(facts->profile_distance, 0.25);
    EXPECT_EQ(facts->from + facts->too_large, before);
    for (const Job& job : trace.jobs) ASSERT_LE(WholeGpus(job), gpus);
    const JobStatistics sample = Describe(trace, 1);
    for (std::size_t hour = 0; hour < 24; ++hour) {
      if (hour >= 8 && hour <= 18) continue;
      EXPECT_EQ(sample.by_hour[hour], 0u) << "no jobs arrive at night";
    }
    EXPECT_EQ(trace.jobs.front().submit, Duration(0));
  }
}

TEST(Sample, DependsOnlyOnTheSeed) {
  const auto sample = [](std::uint64_t seed) {
    JobTrace trace = BurstyTrace(10);
    EXPECT_TRUE(SampleJobs(trace, {.gpus = 4, .tasks = 60, .seed = seed}));
    EXPECT_NEAR(static_cast<double>(trace.jobs.size()), 60, 12);
    return Written(trace);
  };
  EXPECT_EQ(sample(1), sample(1));
  EXPECT_NE(sample(1), sample(2));
}

TEST(Sample, KeepsAllOfALightTraceAndRefusesAnEmptyOne) {
  JobTrace trace;
  trace.jobs = {MakeJob(seconds(5), 1, seconds(10)), MakeJob(seconds(1000), 8, seconds(10)),
                MakeJob(seconds(2000), 1, seconds(10))};
  const auto facts = SampleJobs(trace, {.gpus = 4});
  ASSERT_TRUE(facts);
  EXPECT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(facts->too_large, 1u);
  trace.jobs = {MakeJob(seconds(0), 8, seconds(10)), {.gpu_milli = 1000}};
  EXPECT_FALSE(SampleJobs(trace, {.gpus = 4}));
}

TEST(Sample, ScalesTimeToTheLoad) {
  for (const double load : {0.3, 3.0}) {
    JobTrace trace = BurstyTrace(20);
    const auto facts =
        SampleJobs(trace, {.gpus = 4, .load = load, .tasks = 100, .scale_time = true});
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_NEAR(Describe(trace, 1).offered_gpus / 4, load, 0.001);
    EXPECT_NEAR(DescribeArrivals(trace.jobs).cv, facts->cv_after, 0.001) << "the shape is kept";
    EXPECT_NEAR(static_cast<double>(trace.jobs.size()), 100, 20);
    EXPECT_FALSE(trace.start_ms);
  }
  JobTrace at_once;
  at_once.jobs = {MakeJob(seconds(5), 1, seconds(10)), MakeJob(seconds(5), 1, seconds(10))};
  EXPECT_FALSE(SampleJobs(at_once, {.scale_time = true}));
}

TEST(Sample, ExplainsWhyNoJobIsLeft) {
  JobTrace trace;
  for (int i = 0; i < 3; ++i) trace.jobs.push_back(MakeJob(seconds(i), 1, hours(1000)));
  const auto facts = SampleJobs(trace, {.gpus = 4});
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().message,
            "the sample would be empty, because all jobs were submitted within 0:02; request a "
            "higher load or a number of tasks");
}

TEST(KeepJobs, StartsAtTheFirstRemainingJob) {
  JobTrace trace = BurstyTrace(1);
  const Duration first = trace.jobs[50].submit;
  ASSERT_TRUE(KeepJobs(trace, [&](const Job& job) { return job.submit >= first; }));
  EXPECT_EQ(trace.jobs.size(), 50u);
  EXPECT_EQ(trace.jobs.front().submit, Duration(0));
  EXPECT_EQ(*trace.start_ms, first.count()) << "so the time of day is preserved";
  EXPECT_FALSE(KeepJobs(trace, [](const Job&) { return false; }));
}

TEST(ParseMix, ParsesSharesOfClasses) {
  const auto mix = ParseMix("light=65, medium=27,heavy=8");
  ASSERT_TRUE(mix) << mix.error().message;
  ASSERT_EQ(mix->size(), 3u);
  EXPECT_EQ((*mix)[1].weight_class, "medium");
  EXPECT_DOUBLE_EQ((*mix)[1].share, 0.27);
  for (const char* text :
       {"", "light", "light=", "light=0", "light=-1", "=5", "a=1,a=1", "a=nan"}) {
    EXPECT_FALSE(ParseMix(text)) << text;
  }
}

TEST(MapJobs, FollowsGpusDurationAndMix) {
  const auto catalogue = Catalogue::BuiltIn();
  JobTrace trace;
  for (int i = 0; i < 100; ++i) {
    // Every tenth job has two GPUs, which only heavy workloads use. Every fiftieth has eight, which
    // no workload uses.
    const int gpus = i % 50 == 49 ? 8 : i % 10 == 3 ? 2 : 1;
    trace.jobs.push_back(MakeJob(seconds(i), gpus, seconds(10 + (i * 37) % 100)));
  }
  const auto mapped = MapJobs(trace, *catalogue, {.mix = *ParseMix("light=40,medium=40,heavy=20")});
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->by_class, (std::vector<std::size_t>{40, 40, 20}));
  EXPECT_EQ(mapped->other_gpus, 2u);
  double longest_light = 0;
  double shortest_medium = 1e9;
  for (int i = 0; i < 100; ++i) {
    const Submission& task = mapped->trace.submissions[static_cast<std::size_t>(i)];
    const Workload& workload = **catalogue->Find(task.workload_id);
    const Job& job = trace.jobs[static_cast<std::size_t>(i)];
    EXPECT_EQ(task.at, job.submit);
    EXPECT_EQ(workload.gpus, std::min(WholeGpus(job), 2));
    if (workload.gpus == 2) continue;
    const double duration_s = base::Seconds(*job.duration);
    if (workload.weight_class == "light") longest_light = std::max(longest_light, duration_s);
    if (workload.weight_class == "medium") shortest_medium = std::min(shortest_medium, duration_s);
  }
  EXPECT_LE(longest_light, shortest_medium);
}

TEST(MapJobs, ACatalogueWithoutTheUsualClassesIsOneClass) {
  EXPECT_EQ(MixFor(*Catalogue::BuiltIn()).size(), 3u);
  const auto own = Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib\n"
      "ours,1,100,0.5,0.1,0.1,5000\n",
      "own.csv");
  ASSERT_TRUE(own) << own.error().message;
  const auto mapped = MapJobs(BurstyTrace(1), *own, {.mix = MixFor(*own)});
  ASSERT_TRUE(mapped) << mapped.error().message;
  for (const Submission& task : mapped->trace.submissions) EXPECT_EQ(task.workload_id, "ours");
  EXPECT_THAT(MapJobs(BurstyTrace(1), *own, {.mix = *ParseMix(kUsualMix)}).error().message,
              ::testing::HasSubstr("no workload of class 'light'"));
}

TEST(MapJobs, IsReproducibleAndMayKeepDurations) {
  const auto catalogue = Catalogue::BuiltIn();
  JobTrace trace = BurstyTrace(3);
  trace.jobs[7].duration.reset();
  const auto text = [&](std::uint64_t seed, bool keep) {
    const auto mapped = MapJobs(
        trace, *catalogue,
        {.mix = *ParseMix("light=65,medium=27,heavy=8"), .keep_durations = keep, .seed = seed});
    EXPECT_TRUE(mapped);
    EXPECT_EQ(mapped->no_duration, 1u);
    std::string written;
    (void)WriteTasks(mapped->trace, {"here"}, std::nullopt,
                     [&](std::string_view piece) -> Result<Unit> {
                       written += piece;
                       return Unit{};
                     });
    const auto again = ParseTrace(written, "t.csv");
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->submissions[0].solo_s.has_value(), keep);
    EXPECT_EQ(again->submissions.size(), trace.jobs.size());
    return written;
  };
  EXPECT_EQ(text(1, false), text(1, false));
  EXPECT_NE(text(1, false), text(2, false));
  EXPECT_TRUE(text(1, true).starts_with("# here\nsubmit_s,workload_id,solo_s\n"));
}

TEST(MapJobs, UsesVirtualClustersAsUsersOnRequest) {
  const auto catalogue = Catalogue::BuiltIn();
  JobTrace trace = BurstyTrace(1);
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    trace.jobs[i].user = *trace.users.Number("ann");
    trace.jobs[i].vc = *trace.vcs.Number(i % 2 == 0 ? "vision" : "speech");
  }
  MapOptions options{.mix = *ParseMix("light=1"), .groups_as_users = true};
  const auto mapped = MapJobs(trace, *catalogue, options);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->trace.submissions[0].user, "vision");
  EXPECT_EQ(mapped->trace.submissions[1].user, "speech");
  options.groups_as_users = false;
  EXPECT_EQ(MapJobs(trace, *catalogue, options)->trace.submissions[1].user, "ann");
}

TEST(MapJobs, KeepsNamedWorkloadsAndDropsJobsThatNeverRan) {
  const auto catalogue = Catalogue::BuiltIn();
  JobTrace trace;
  for (int i = 0; i < 4; ++i) trace.jobs.push_back(MakeJob(seconds(i), 1, seconds(60)));
  trace.jobs[1].workload = *trace.workloads.Number("vgg16-b32");
  trace.jobs[2].status = JobStatus::kPending;
  trace.jobs[2].duration.reset();
  trace.jobs[3].workload = *trace.workloads.Number("of another catalogue");
  const auto mapped = MapJobs(trace, *catalogue, {.mix = *ParseMix("light=1")});
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->kept, 1u);
  EXPECT_EQ(mapped->never_ran, 1u);
  ASSERT_EQ(mapped->trace.submissions.size(), 3u);
  EXPECT_EQ(mapped->trace.submissions[1].workload_id, "vgg16-b32");
  EXPECT_EQ(mapped->by_class, std::vector<std::size_t>{2});
}

TEST(MapJobs, KeepsTheUsersOfJobs) {
  const auto catalogue = Catalogue::BuiltIn();
  JobTrace trace = BurstyTrace(2);
  for (std::size_t i = 0; i < trace.jobs.size(); ++i)
    trace.jobs[i].user = *trace.users.Number(i % 3 == 0 ? "ann" : "bob");
  const auto mapped = MapJobs(trace, *catalogue, {.mix = *ParseMix("light=1")});
  ASSERT_TRUE(mapped);
  std::string written;
  (void)WriteTasks(mapped->trace, {}, std::nullopt, [&](std::string_view piece) -> Result<Unit> {
    written += piece;
    return Unit{};
  });
  const auto again = ParseTrace(written, "t.csv");
  ASSERT_TRUE(again) << again.error().message;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i)
    EXPECT_EQ(again->submissions[i].user, i % 3 == 0 ? "ann" : "bob");
}

TEST(MapJobs, RefusesAClassThatNoWorkloadHas) {
  const auto catalogue = Catalogue::BuiltIn();
  const auto mapped = MapJobs(BurstyTrace(1), *catalogue, {.mix = *ParseMix("light=1,giant=1")});
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().message,
            "the catalogue has no workload of class 'giant'; without --mix, every job may get any "
            "workload");
}

JobTrace Generated(JobGenerator generator, int jobs) {
  JobTrace trace;
  for (int i = 0; i < jobs; ++i) trace.jobs.push_back(generator.Next());
  return trace;
}

TEST(Generator, ReproducesTheArrivalsOfItsTrace) {
  const JobTrace original = BurstyTrace(50);
  const JobStatistics wanted = Describe(original, 1);
  auto generator = JobGenerator::Fit(original, {.seed = 4});
  ASSERT_TRUE(generator);
  const JobStatistics made = Describe(Generated(*generator, 20'000), 1);
  EXPECT_NEAR(made.arrivals.gaps_s.mean / wanted.arrivals.gaps_s.mean, 1, 0.1);
  EXPECT_NEAR(made.arrivals.cv / wanted.arrivals.cv, 1, 0.1);
  EXPECT_NEAR(*made.arrivals.dispersion / *wanted.arrivals.dispersion, 1, 0.3)
      << "bursts remain intact";
  EXPECT_NEAR(made.durations_s.p50 / wanted.durations_s.p50, 1, 0.05);
  EXPECT_NEAR(made.offered_gpus / wanted.offered_gpus, 1, 0.1);
}

TEST(Generator, StretchesTheGapsToTheRequestedMean) {
  auto generator = JobGenerator::Fit(BurstyTrace(20), {.mean_gap_s = 300, .max_gpus = 4});
  ASSERT_TRUE(generator);
  const JobTrace made = Generated(*generator, 20'000);
  EXPECT_NEAR(DescribeArrivals(made.jobs).gaps_s.mean, 300, 30);
  for (const Job& job : made.jobs) ASSERT_LE(WholeGpus(job), 4);
}

TEST(Generator, HasBuiltInDefaults) {
  const JobTrace made = Generated(JobGenerator({.seed = 9}), 50'000);
  const JobStatistics facts = Describe(made, 1);
  EXPECT_EQ(made.jobs.front().submit, Duration(0));
  EXPECT_NEAR(facts.arrivals.gaps_s.mean, 151, 5);
  EXPECT_NEAR(facts.durations_s.p50, 940, 50);
  EXPECT_NEAR(static_cast<double>(facts.gpu_milli.at(1000)) / 50'000, 0.71, 0.01);
  EXPECT_NEAR(static_cast<double>(facts.gpu_milli.at(8000)) / 50'000, 0.11, 0.01);
  const JobStatistics small = Describe(Generated(JobGenerator({.max_gpus = 2}), 10'000), 1);
  EXPECT_EQ(small.gpu_milli.rbegin()->first, 2000);
  EXPECT_EQ(Written(Generated(JobGenerator({.seed = 9}), 500)),
            Written(Generated(JobGenerator({.seed = 9}), 500)));
}

TEST(Generator, RefusesToFitFewerThanTwoJobs) {
  JobTrace trace;
  trace.jobs = {MakeJob(seconds(0), 1, seconds(1)), {.submit = seconds(1), .gpu_milli = 1000}};
  EXPECT_FALSE(JobGenerator::Fit(trace, {}));
}

}  // namespace
}  // namespace carma::trace
