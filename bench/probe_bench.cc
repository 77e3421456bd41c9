// Measures the cost of one round of samples, without a daemon. CARMA_BENCH_NVML names the NVML
// library; the default is the system's. At one round a second, `percent_of_a_core` is the CPU load
// of monitoring. For eight GPUs, the limits are 0.5 for this load and 30 MiB of memory.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "gpu/dmon_parser.h"
#include "gpu/nvml_probe.h"
#include "gpu/window.h"

namespace carma::gpu {
namespace {

// Returns the user and system CPU time of all threads.
double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentMib() {
  const std::string text = base::ReadFile("/proc/self/statm", 1'000).value_or("");
  const std::vector<std::string_view> words = base::SplitWords(text);
  const auto pages = words.size() > 1 ? base::ParseInt(words[1]) : std::nullopt;
  return static_cast<double>(pages.value_or(0)) * 4'096 / (1 << 20);
}

void Report(benchmark::State& state, double cpu_before_s, std::size_t gpus) {
  state.counters["gpus"] = static_cast<double>(gpus);
  state.counters["percent_of_a_core"] =
      (CpuSeconds() - cpu_before_s) / static_cast<double>(state.iterations()) * 100;
  state.counters["resident_mib"] = ResidentMib();
}

// Measures a round that reads each GPU through NVML and updates its averaging window. Rounds are a
// second apart on the probe's clock, so that infrequent queries run as rarely as in the daemon.
void BM_Round(benchmark::State& state) {
  const char* library = std::getenv("CARMA_BENCH_NVML");
  auto probe = LoadNvmlProbe(library != nullptr ? library : kNvmlLibrary);
  if (!probe) return state.SkipWithError(probe.error().message.c_str());
  const auto devices = (*probe)->Devices();
  if (!devices) return state.SkipWithError(devices.error().message.c_str());
  std::vector<Window> windows(devices->size(), Window(std::chrono::seconds(60)));
  base::Time now = base::FromMs(0);
  const double cpu_before_s = CpuSeconds();
  for (auto _ : state) {
    now += std::chrono::seconds(1);
    for (std::size_t i = 0; i < devices->size(); ++i) {
      const auto reading = (*probe)->Read(i, now);
      if (!reading) return state.SkipWithError(reading.error().message.c_str());
      windows[i].Add(*reading);
      benchmark::DoNotOptimize(windows[i].SmActive());
    }
  }
  Report(state, cpu_before_s, devices->size());
}
BENCHMARK(BM_Round)->Unit(benchmark::kMicrosecond);

// Measures how long it takes to parse what dcgmi prints each second for this many GPUs.
void BM_DmonText(benchmark::State& state) {
  const auto gpus = static_cast<std::size_t>(state.range(0));
  DmonParser parser;
  const auto line = [](std::string text, const std::vector<std::string>& cells) {
    text.resize(10, ' ');
    for (std::string cell : cells) {
      cell.resize(18, ' ');
      text += cell;
    }
    return text + "\n";
  };
  parser.Feed(
      line("#Entity", {"PCBID", "SMACT", "SMOCC", "GRACT", "TENSO", "DRAMA", "FP64A", "FP32A",
                       "FP16A", "PCITX", "PCIRX", "NVLTX", "NVLRX", "POWER", "TOTEC"}));
  std::string rows;
  for (std::size_t i = 0; i < gpus; ++i) {
    rows += line("GPU " + std::to_string(i),
                 {"00000000:0" + std::to_string(i % 10) + ":00.0", "0.625", "0.125", "0.990",
                  "0.400", "0.300", "0.000", "0.075", "0.002", "1000000", "2000000", "0", "N/A",
                  "214.500", "1234567"});
  }
  const double cpu_before_s = CpuSeconds();
  for (auto _ : state) {
    if (parser.Feed(rows).size() != gpus) return state.SkipWithError("rows were lost");
  }
  Report(state, cpu_before_s, gpus);
}
BENCHMARK(BM_DmonText)->Arg(8)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace carma::gpu
