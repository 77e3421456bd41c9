// Measures how fast traces of various sizes are read, described, sampled, mapped and generated.
#include <benchmark/benchmark.h>

#include <string>

#include <fmt/format.h>

#include "lab/trace/job_generator.h"
#include "lab/trace/job_mapping.h"
#include "lab/trace/job_reader.h"
#include "lab/trace/job_sample.h"
#include "lab/trace/job_statistics.h"
#include "lab/trace/job_writer.h"

namespace carma::trace {
namespace {

JobTrace Made(std::int64_t jobs) {
  JobTrace trace;
  JobGenerator generator({.seed = 1, .mean_gap_s = 10});
  trace.jobs.reserve(static_cast<std::size_t>(jobs));
  for (std::int64_t i = 0; i < jobs; ++i) {
    trace.jobs.push_back(generator.Next());
    trace.jobs.back().line = static_cast<std::int32_t>(i);
  }
  return trace;
}

std::string Jobs(const JobTrace& trace) {
  std::string text;
  (void)WriteJobs(trace, [&](std::string_view piece) -> Result<Unit> {
    text += piece;
    return Unit{};
  });
  return text;
}

// Writes the benchmark's jobs in the formats of other clusters' traces.
std::string Helios(const JobTrace& trace) {
  constexpr std::int64_t kStartMs = 1'585'699'200'000;
  std::string text =
      "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
      "queue\n";
  for (const Job& job : trace.jobs) {
    const std::string at = FormatLocalTime(kStartMs + job.submit.count());
    const std::string end = FormatLocalTime(kStartMs + job.submit.count() + job.duration->count());
    text += fmt::format("{},u{:03x},vc{:02x},{},4,1,COMPLETED,{},{},{},{},0\n", job.line,
                        job.line % 300, job.line % 20, WholeGpus(job), at, at, end,
                        job.duration->count() / 1000);
  }
  return text;
}
std::string Philly(const JobTrace& trace) {
  constexpr std::int64_t kStartMs = 1'502'064'000'000;
  std::string text = "[";
  for (const Job& job : trace.jobs) {
    const std::string at = FormatLocalTime(kStartMs + job.submit.count());
    const std::string end = FormatLocalTime(kStartMs + job.submit.count() + job.duration->count());
    std::string gpus;
    for (int i = 0; i < WholeGpus(job); ++i) gpus += fmt::format("{}\"gpu{}\"", i ? "," : "", i);
    text += fmt::format(
        "{}\n{{\"status\": \"Pass\", \"vc\": \"ee9e{:02x}\", \"jobid\": \"application_{}\", "
        "\"attempts\": [{{\"start_time\": \"{}\", \"end_time\": \"{}\", \"detail\": [{{\"ip\": "
        "\"m{}\", \"gpus\": [{}]}}]}}], \"submitted_time\": \"{}\", \"user\": \"u{:03x}\"}}",
        text.size() > 1 ? "," : "", job.line % 15, job.line, at, end, job.line % 500, gpus, at,
        job.line % 300);
  }
  return text + "\n]\n";
}

void Read(benchmark::State& state, std::string (*write)(const JobTrace&)) {
  const std::string text = write(Made(state.range(0)));
  const auto catalogue = Catalogue::BuiltIn();
  for (auto _ : state) {
    TextSource source(text);
    auto trace = ReadJobs(source, "bench", {.catalogue = &*catalogue});
    CARMA_CHECK(trace && trace->jobs.size() == static_cast<std::size_t>(state.range(0)), "read");
    benchmark::DoNotOptimize(trace);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK_CAPTURE(Read, jobs, &Jobs)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Read, helios, &Helios)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Read, philly, &Philly)->Arg(100'000)->Unit(benchmark::kMillisecond);

void Describe(benchmark::State& state) {
  const JobTrace trace = Made(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Describe(trace, 48));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Describe)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void Sample(benchmark::State& state) {
  const JobTrace trace = Made(state.range(0));
  for (auto _ : state) {
    JobTrace sample = trace;
    benchmark::DoNotOptimize(SampleJobs(sample, {.gpus = 4}));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Sample)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void Map(benchmark::State& state) {
  const auto catalogue = Catalogue::BuiltIn();
  const JobTrace trace = Made(state.range(0));
  const MapOptions options{.mix = *ParseMix("light=65,medium=27,heavy=8")};
  for (auto _ : state) benchmark::DoNotOptimize(MapJobs(trace, *catalogue, options));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Map)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void Generate(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Made(state.range(0)));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Generate)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carma::trace
