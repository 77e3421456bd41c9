// Measures how fast the simulator is, depending on the number of tasks, the number of GPUs, and the
// monitor's sampling. Also measures one run of a published policy, for comparison with other
// simulators (sim_peer.sh).
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "lab/sim/simulate.h"

namespace carma::sim {
namespace {

using base::Duration;

constexpr int kGpusPerServer = 8;
constexpr double kMeanSoloS = 1'200;

// A trace and its workloads: the built-in ones, or the files named by CARMA_SIM_TRACE and
// CARMA_SIM_WORKLOADS.
struct Load {
  trace::Catalogue catalogue;
  std::vector<Arrival> arrivals;
};

template <class T>
T Must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "sim_bench: %s\n", result.error().message.c_str());
  std::exit(2);
}

std::string Text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const Load& TheLoad() {
  static const std::unique_ptr<Load> load = [] {
    auto made = std::make_unique<Load>();
    const char* trace_path = std::getenv("CARMA_SIM_TRACE");
    const char* workloads_path = std::getenv("CARMA_SIM_WORKLOADS");
    made->catalogue = Must(workloads_path != nullptr
                               ? trace::Catalogue::Parse(Text(workloads_path), workloads_path)
                               : trace::Catalogue::BuiltIn());
    const trace::TaskTrace trace =
        Must(trace_path != nullptr ? trace::ParseTrace(Text(trace_path), trace_path)
                                   : trace::BuiltInDemo60());
    made->arrivals = Must(Arrivals(trace, made->catalogue, "trace"));
    return made;
  }();
  return *load;
}

// Random tasks of the load's workloads, with an offered load of `offered`: with one task per GPU,
// they would need `offered` times as many GPUs. Above about 1.5, tasks queue even when collocated.
std::vector<Arrival> RandomTasks(std::int64_t tasks, std::int64_t gpus, double offered) {
  const std::vector<Arrival>& some = TheLoad().arrivals;
  base::Rng rng(7);
  std::vector<Arrival> arrivals;
  arrivals.reserve(static_cast<std::size_t>(tasks));
  double work_s = 0;
  for (std::int64_t i = 0; i < tasks; ++i) {
    const trace::Workload* workload = some[rng.Below(some.size())].workload;
    const double solo_s = rng.Exponential(kMeanSoloS);
    work_s += solo_s * workload->gpus;
    arrivals.push_back({Duration{0}, workload, solo_s});
  }
  const double gap_s = work_s / (offered * static_cast<double>(gpus)) / static_cast<double>(tasks);
  double at_s = 0;
  for (Arrival& arrival : arrivals) {
    at_s += rng.Exponential(gap_s);
    arrival.at = Duration(static_cast<std::int64_t>(at_s * 1000));
  }
  return arrivals;
}

void Report(benchmark::State& state, const Totals& totals) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto runs = static_cast<double>(state.iterations());
  state.counters["events_per_s"] = benchmark::Counter(
      static_cast<double>(totals.task_events) * runs, benchmark::Counter::kIsRate);
  state.counters["samples"] = static_cast<double>(totals.samples);
  state.counters["rss_mib"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void RunRandom(benchmark::State& state, MonitorOptions::Mode mode, double offered) {
  const std::int64_t tasks = state.range(0);
  const std::int64_t gpus = state.range(1);
  const Cluster cluster = Must(
      ParseCluster(gpus <= kGpusPerServer ? fmt::format("{}xA100-40GB", gpus)
                                          : fmt::format("{} * dgx-a100", gpus / kGpusPerServer)));
  const std::vector<Arrival> arrivals = RandomTasks(tasks, gpus, offered);
  RunOptions options;
  options.estimates.source = "oracle";
  options.monitor.mode = mode;
  Totals totals;
  for (auto _ : state) totals = Must(Simulate(cluster, arrivals, options)).totals;
  Report(state, totals);
}

// Decides by claims alone, without samples.
void BM_Claims(benchmark::State& state) {
  RunRandom(state, MonitorOptions::Mode::kNone, 1.4);
}
// Runs the same tasks as BM_Claims, but samples every GPU each second.
void BM_Sampled(benchmark::State& state) {
  RunRandom(state, MonitorOptions::Mode::kOnDemand, 1.4);
}
void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tasks", "gpus"})->Unit(benchmark::kMillisecond)->Iterations(1);
  for (const std::int64_t tasks : {1'000, 10'000, 100'000, 1'000'000}) bench->Args({tasks, 1'000});
  for (const std::int64_t gpus : {4, 32, 256, 4'096}) bench->Args({100'000, gpus});
}
BENCHMARK(BM_Claims)->Apply(Sizes);
BENCHMARK(BM_Sampled)->Apply(Sizes);

// Runs a published policy in its published scheduling loop, with `copies` copies of the trace on
// one server of 4 x `copies` GPUs.
void BM_Published(benchmark::State& state) {
  const std::int64_t copies = state.range(0);
  const Cluster cluster = Must(ParseCluster(fmt::format("{}xA100-40GB", 4 * copies)));
  std::vector<Arrival> arrivals;
  for (const Arrival& arrival : TheLoad().arrivals) {
    arrivals.insert(arrivals.end(), static_cast<std::size_t>(copies), arrival);
  }
  RunOptions options;
  options.policy.mapper = "magm";
  options.policy.floor_mib = 2'000;
  options = Must(AsPublished("thesis", options));
  Totals totals;
  for (auto _ : state) totals = Must(Simulate(cluster, arrivals, options)).totals;
  Report(state, totals);
}
BENCHMARK(BM_Published)->ArgName("copies")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

// Runs `copies` copies of the trace on 1000 GPUs under carmad's rules, which decide at every event.
// No samples are taken, so decisions are based on claims alone.
void BM_OwnRules(benchmark::State& state) {
  const Cluster cluster = Must(ParseCluster("125 * dgx-a100"));
  std::vector<Arrival> arrivals;
  for (const Arrival& arrival : TheLoad().arrivals) {
    arrivals.insert(arrivals.end(), static_cast<std::size_t>(state.range(0)), arrival);
  }
  RunOptions options;
  options.estimates.source = "oracle";
  options.policy.margin_mib = 500;
  options.monitor.mode = MonitorOptions::Mode::kNone;
  Totals totals;
  for (auto _ : state) totals = Must(Simulate(cluster, arrivals, options)).totals;
  Report(state, totals);
}
BENCHMARK(BM_OwnRules)->ArgName("copies")->Arg(32)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carma::sim
