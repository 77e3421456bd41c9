// Measures the cost of reading tasks' progress, in the processes that forward their output and in
// carmad. In BM_HundredTasks, `percent_of_a_core` may be at most 0.1 for 100 tasks that print
// continuously.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "core/scheduler/scheduler.h"
#include "task/progress/tracker.h"
#include "task/shim/progress_file.h"

namespace carma::task {
namespace {

constexpr int kTasks = 100;
constexpr std::int64_t kStart = 1'772'000'000'000;
constexpr std::int64_t kReadGapMs = 3'000;  // how often carmad reads the progress files

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string Repeated(std::string_view text) {
  std::string all;
  while (all.size() < 2 * ProgressTracker::kKeptBytes) all += text;
  return all;
}

// What a task prints between two readings of its progress. The tracker keeps the last few KiB.
std::string Output(std::int64_t kind, int step) {
  switch (kind) {
    case 0:
      return Repeated(
          fmt::format("\rEpoch 2/4:  50%|#####     | {}/900000 [01:00<01:00,  5.00it/s, "
                      "loss=0.25]",
                      step));
    case 1:
      return Repeated(fmt::format(
          " iteration {:8}/ 900000 | consumed samples: 12800 | elapsed time per iteration (ms): "
          "812.3 | learning rate: 1.5E-04 | lm loss: 2.31E+00 | loss scale: 1.0 |\n",
          step));
    case 2:
      return Repeated("[W] 2026-01-02 03:04:05 worker 7: cache of shard 12 is 81 % full, 3 of 9\n");
    case 3:
      return std::string(2 * ProgressTracker::kKeptBytes, 'x');  // an unterminated line
    case 4:
      return Repeated("loss[epoch 1/2 ");
    case 5:
      return Repeated("\x1b[31m\x1b]0;");
    default:
      return Repeated("1/2 [");
  }
}
constexpr const char* kKinds[] = {"bar",   "Megatron", "other log", "no newline",
                                  "words", "escapes",  "brackets"};

// Measures one reading. The task is so old that readings are ten seconds apart.
void BM_Look(benchmark::State& state) {
  ProgressTracker tracker;
  std::int64_t now_ms = kStart;
  int step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::string output = Output(state.range(0), ++step);
    now_ms += ProgressTracker::kLastGapMs;
    state.ResumeTiming();
    tracker.Take(1, output);
    benchmark::DoNotOptimize(tracker.Look(now_ms));
  }
  state.SetLabel(kKinds[state.range(0)]);
}
BENCHMARK(BM_Look)->ArgName("output")->DenseRange(0, 6)->Unit(benchmark::kMicrosecond);

// Measures ten seconds of output at 100 MB/s: a gigabyte in pipe-sized pieces and one reading.
void BM_Flood(benchmark::State& state) {
  constexpr std::size_t kGigabyte = 1'000'000'000;
  const std::string piece(65'536, 'x');
  for (auto _ : state) {
    ProgressTracker tracker;
    for (std::size_t taken = 0; taken < kGigabyte; taken += piece.size()) tracker.Take(0, piece);
    benchmark::DoNotOptimize(tracker.Look(kStart));
  }
}
BENCHMARK(BM_Flood)->Unit(benchmark::kMicrosecond);

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "carma-progress-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string Of(int task) const {
    const std::string dir = path_ + "/" + std::to_string(task);
    std::filesystem::create_directories(dir);
    return dir;
  }

 private:
  std::string path_;
};

// A policy with room for any number of tasks on every GPU.
core::PolicyConfig Roomy() {
  core::PolicyConfig config;
  config.settle = false;
  config.margin_mib = 0;
  config.sm_cap.reset();
  config.stale_after = std::chrono::hours(24);
  return config;
}

// Fills carmad's core with a hundred tasks that run on sixteen GPUs.
void Fill(core::Scheduler& scheduler) {
  std::vector<core::GpuInfo> infos;
  for (int i = 0; i < 16; ++i)
    infos.push_back({.uuid = std::to_string(i), .type = "A100-40GB", .total_mib = 40'536});
  scheduler.Handle(core::Time{}, core::GpusDiscovered{infos});
  for (std::uint32_t i = 0; i < 16; ++i)
    scheduler.Handle(core::Time{}, core::GpuSampled{core::GpuIndex{i}, core::GpuSample{}});
  for (std::uint64_t id = 1; id <= kTasks; ++id) {
    scheduler.Handle(core::Time{}, core::TaskSubmitted{core::TaskId{id}, {}});
    scheduler.Handle(core::Time{},
                     core::EstimateReady{core::TaskId{id}, core::Estimate{4'000, "given"}});
    scheduler.Handle(core::Time{}, core::TaskStarted{core::TaskId{id}, 1});
  }
}

// Measures thirty seconds of a hundred tasks: 300 readings, each with its write, and ten rounds of
// carmad.
void BM_HundredTasks(benchmark::State& state) {
  constexpr std::int64_t kSpanMs = 30'000;
  const Folder folder;
  std::vector<ProgressTracker> trackers(kTasks);
  std::vector<base::UniqueFd> files;
  for (int task = 0; task < kTasks; ++task)
    files.emplace_back(
        ::open((folder.Of(task) + "/progress").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  core::Scheduler scheduler(Roomy());
  Fill(scheduler);
  std::int64_t now_ms = kStart;
  int step = 0;
  double cpu_s = 0;
  std::int64_t reports = 0;
  for (auto _ : state) {
    std::vector<std::string> outputs;
    for (int task = 0; task < kTasks; ++task) outputs.push_back(Output(task % 3, ++step));
    const double before_s = CpuSeconds();
    for (std::int64_t at_ms = 0; at_ms < kSpanMs; at_ms += ProgressTracker::kLastGapMs) {
      for (std::size_t task = 0; task < kTasks; ++task) {
        trackers[task].Take(1, outputs[task]);
        const auto report = trackers[task].Look(now_ms + at_ms);
        if (report) {
          std::string text = ToText(*report);
          text.resize(1024, ' ');
          (void)!::pwrite(files[task].get(), text.data(), text.size(), 0);
        }
      }
    }
    for (std::int64_t at_ms = 0; at_ms < kSpanMs; at_ms += kReadGapMs) {
      core::ProgressSeen seen;
      for (int task = 0; task < kTasks; ++task) {
        const auto report = ReadProgressFile(folder.Of(task));
        if (!report || !report->ends_ms) continue;
        ++reports;
        seen.left.emplace_back(
            core::TaskId{static_cast<std::uint64_t>(task) + 1},
            core::Duration(std::max<std::int64_t>(0, *report->ends_ms - now_ms)));
      }
      benchmark::DoNotOptimize(
          scheduler.Handle(core::Time{core::Duration(now_ms - kStart + at_ms)}, seen));
    }
    cpu_s += CpuSeconds() - before_s;
    now_ms += kSpanMs;
  }
  const double span_s = static_cast<double>(state.iterations() * kSpanMs) / 1000;
  state.counters["percent_of_a_core"] = 100 * cpu_s / span_s;
  state.counters["reports"] =
      static_cast<double>(reports) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_HundredTasks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carma::task
