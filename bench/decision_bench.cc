// How long one decision of the core takes, by the length of the queue and the number of GPUs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "core/scheduler.h"

namespace carma::core {
namespace {

using Clock = std::chrono::steady_clock;

// A server full of residents, with a queue behind a head that does not fit.
class Server {
 public:
  Server(std::int64_t queued, int gpus) : gpus_(gpus), scheduler_(Config()) {
    std::vector<GpuInfo> infos;
    for (int i = 0; i < gpus; ++i) {
      infos.push_back(
          {.uuid = "GPU-" + std::to_string(i), .type = "A100-40GB", .total_mib = 40'536});
    }
    scheduler_.Handle(now_, GpusDiscovered{infos});
    for (int i = 0; i < gpus; ++i) scheduler_.Handle(now_, Sample(i));
    for (int i = 0; i < 4 * gpus; ++i) Submit(9'000);
    SubmitBatch(queued);
  }

  // The whole life of one decision: a running task ends, the head of the queue takes its place.
  double ExitMicroseconds() {
    const TaskId first = running_.front();
    running_.erase(running_.begin());
    now_ += Duration{10};
    return Timed(TaskExited{first, 1, {}});
  }
  double SampleMicroseconds() {
    now_ += Duration{10};
    next_gpu_ = (next_gpu_ + 1) % gpus_;
    return Timed(Sample(next_gpu_));
  }
  double SubmitMicroseconds() {
    now_ += Duration{10};
    const TaskId id{++last_};
    const double submit = Timed(TaskSubmitted{id, {}});
    return submit + Timed(EstimateReady{id, Estimate{9'000, "given"}});
  }
  void SubmitBatch(std::int64_t count) {
    std::vector<Event> submitted;
    std::vector<Event> estimated;
    for (std::int64_t i = 0; i < count; ++i) {
      const TaskId id{++last_};
      submitted.emplace_back(TaskSubmitted{id, {}});
      estimated.emplace_back(EstimateReady{id, Estimate{9'000, "given"}});
    }
    Note(scheduler_.HandleAll(now_, submitted));
    Note(scheduler_.HandleAll(now_, estimated));
  }

 private:
  static PolicyConfig Config() {
    PolicyConfig config;
    config.settle = false;  // four residents at once on every GPU
    config.margin_mib = 1'000;
    config.stale_after = std::chrono::hours(24);  // only some benchmarks send samples
    return config;
  }
  void Submit(std::int64_t need_mib) {
    const TaskId id{++last_};
    Note(scheduler_.Handle(now_, TaskSubmitted{id, {}}));
    Note(scheduler_.Handle(now_, EstimateReady{id, Estimate{need_mib, "given"}}));
  }
  GpuSampled Sample(int gpu) {
    GpuSample sample;
    sample.taken = now_;
    sample.window_from = now_ - Duration{60'000};
    sample.sm_active = 0.5 + 0.2 * rng_.Uniform();
    const GpuIndex index{static_cast<std::uint32_t>(gpu)};
    for (const TaskId id : running_) {
      if (scheduler_.Find(id)->attempt.placement.front().gpu != index) continue;
      sample.tasks_mib.emplace_back(id, 8'500);
      sample.used_mib += 8'500;
    }
    return {index, sample};
  }
  double Timed(const Event& event) {
    const Clock::time_point from = Clock::now();
    std::vector<Action> actions = scheduler_.Handle(now_, event);
    const std::chrono::duration<double, std::micro> spent = Clock::now() - from;
    Note(actions);
    return spent.count();
  }
  void Note(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      const auto* start = std::get_if<StartTask>(&action);
      if (start == nullptr) continue;
      running_.push_back(start->id);
      scheduler_.Handle(now_, TaskStarted{start->id, start->attempt});
    }
  }

  int gpus_;
  int next_gpu_ = 0;
  Time now_ = base::FromMs(1'000'000);
  std::uint64_t last_ = 0;
  base::Rng rng_{1};
  Scheduler scheduler_;
  std::vector<TaskId> running_;
};

void Report(benchmark::State& state, std::vector<double> microseconds) {
  if (microseconds.empty()) return;
  std::sort(microseconds.begin(), microseconds.end());
  const auto at = [&](double share) {
    return microseconds[static_cast<std::size_t>(share *
                                                 static_cast<double>(microseconds.size() - 1))];
  };
  state.counters["p50_us"] = at(0.50);
  state.counters["p99_us"] = at(0.99);
  state.counters["max_us"] = microseconds.back();
}

template <class Step>
void Measure(benchmark::State& state, Step step) {
  Server server(state.range(0), static_cast<int>(state.range(1)));
  std::vector<double> microseconds;
  for (auto _ : state) {
    microseconds.push_back(step(server));
    state.SetIterationTime(microseconds.back() * 1e-6);
  }
  Report(state, std::move(microseconds));
}

void BM_TaskExited(benchmark::State& state) {
  Measure(state, [](Server& server) {
    // Keeps the queue at its length.
    server.SubmitMicroseconds();
    return server.ExitMicroseconds();
  });
}
void BM_GpuSampled(benchmark::State& state) {
  Measure(state, [](Server& server) { return server.SampleMicroseconds(); });
}
void BM_TaskSubmitted(benchmark::State& state) {
  Measure(state, [](Server& server) { return server.SubmitMicroseconds(); });
}

void BM_SubmitBatch(benchmark::State& state) {
  for (auto _ : state) {
    Server server(0, 8);
    const Clock::time_point from = Clock::now();
    server.SubmitBatch(state.range(0));
    const std::chrono::duration<double> spent = Clock::now() - from;
    state.SetIterationTime(spent.count());
  }
  state.counters["tasks_per_s"] = benchmark::Counter(static_cast<double>(state.range(0)),
                                                     benchmark::Counter::kIsIterationInvariantRate);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queued", "gpus"})->ArgsProduct({{100, 10'000, 100'000}, {8, 16}});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(5'000);
}
BENCHMARK(BM_TaskExited)->Apply(Sizes);
BENCHMARK(BM_GpuSampled)->Apply(Sizes);
BENCHMARK(BM_TaskSubmitted)->Apply(Sizes);
BENCHMARK(BM_SubmitBatch)
    ->ArgName("tasks")
    ->Arg(10'000)
    ->Arg(100'000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carma::core
