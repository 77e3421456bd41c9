// How long one decision of the core takes, by the length of the queue and the number of GPUs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "core/scheduler.h"

namespace carma::core {
namespace {

using Clock = std::chrono::steady_clock;

PolicyConfig HeadOnly() {
  PolicyConfig config;
  config.settle = false;  // four residents at once on every GPU
  config.margin_mib = 1'000;
  config.stale_after = std::chrono::hours(24);  // only some benchmarks send samples
  return config;
}
constexpr std::uint64_t kUsers = 200;
// Two hundred users by their shares.
PolicyConfig Fair(int backfill) {
  PolicyConfig config = HeadOnly();
  config.order = QueueOrder::kFair;
  config.backfill = backfill;
  return config;
}
// Task and GPU chosen together among the first thousand.
PolicyConfig ByWork() {
  PolicyConfig config = HeadOnly();
  config.mapper = "by-work";
  config.backfill = 1'000;
  config.min_gain = 0.01;
  return config;
}

// A server full of residents, with a queue behind a head that does not fit. alike: all tasks ask
// for the same; otherwise no two of a thousand do.
class Server {
 public:
  Server(std::int64_t queued, int gpus, const PolicyConfig& config = HeadOnly(), bool alike = true)
      : gpus_(gpus), alike_(alike), scheduler_(config) {
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
    const double submit = Timed(TaskSubmitted{id, Request()});
    return submit + Timed(EstimateReady{id, Estimate{NextNeedMib(), "given"}});
  }
  void FreeAll() {
    for (const TaskId id : std::exchange(running_, {}))
      scheduler_.Handle(now_, TaskExited{id, 1, {}});
  }
  // Answers in how many seconds they were put in line and decided about.
  double SubmitBatch(std::int64_t count) {
    std::vector<Event> submitted;
    std::vector<Event> estimated;
    for (std::int64_t i = 0; i < count; ++i) {
      const TaskId id{++last_};
      submitted.emplace_back(TaskSubmitted{id, Request()});
      estimated.emplace_back(EstimateReady{id, Estimate{NextNeedMib(), "given"}});
    }
    Note(scheduler_.HandleAll(now_, submitted));
    const Clock::time_point from = Clock::now();
    std::vector<Action> actions = scheduler_.HandleAll(now_, estimated);
    const std::chrono::duration<double> spent = Clock::now() - from;
    Note(std::move(actions));
    return spent.count();
  }

 private:
  std::int64_t NextNeedMib() {
    return alike_ ? 9'000 : 8'000 + static_cast<std::int64_t>(last_ % 1'000);
  }
  TaskRequest Request() const {
    TaskRequest request;
    request.uid = static_cast<std::uint32_t>(last_ % kUsers);
    return request;
  }
  void Submit(std::int64_t need_mib) {
    const TaskId id{++last_};
    Note(scheduler_.Handle(now_, TaskSubmitted{id, Request()}));
    Note(scheduler_.Handle(now_, EstimateReady{id, Estimate{need_mib, "given"}}));
  }
  GpuSampled Sample(int gpu) {
    GpuSample sample;
    sample.taken = now_;
    sample.window_from = now_ - Duration{60'000};
    sample.sm_active = 0.5 + 0.2 * rng_.Uniform();
    const GpuIndex index{static_cast<std::uint32_t>(gpu)};
    for (const TaskId id : running_) {
      if (scheduler_.Find(id)->attempt->placement.front().gpu != index) continue;
      sample.tasks_mib.emplace_back(id, 8'500);
      sample.used_mib += 8'500;
    }
    return {index, sample};
  }
  double Timed(const Event& event) {
    const Clock::time_point from = Clock::now();
    std::vector<Action> actions = scheduler_.Handle(now_, event);
    const std::chrono::duration<double, std::micro> spent = Clock::now() - from;
    Note(std::move(actions));
    return spent.count();
  }
  // As the daemon does it: what starts runs, and a core that has more to do at once goes on.
  void Note(std::vector<Action> actions) {
    while (true) {
      bool at_once = false;
      for (const Action& action : actions) {
        const auto* wake = std::get_if<WakeAt>(&action);
        at_once = at_once || (wake != nullptr && wake->when <= now_);
        const auto* start = std::get_if<StartTask>(&action);
        if (start == nullptr) continue;
        running_.push_back(start->id);
        scheduler_.Handle(now_, TaskStarted{start->id, start->attempt});
      }
      if (!at_once) return;
      actions = scheduler_.Handle(now_, WakeUp{});
    }
  }

  int gpus_;
  bool alike_;
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
void Measure(benchmark::State& state, Step step, const PolicyConfig& config = HeadOnly(),
             bool alike = true) {
  Server server(state.range(0), static_cast<int>(state.range(1)), config, alike);
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

void BM_FairTaskExited(benchmark::State& state) {
  Measure(
      state,
      [](Server& server) {
        server.SubmitMicroseconds();
        return server.ExitMicroseconds();
      },
      Fair(static_cast<int>(state.range(2))));
}
void BM_FairGpuSampled(benchmark::State& state) {
  Measure(
      state, [](Server& server) { return server.SampleMicroseconds(); },
      Fair(static_cast<int>(state.range(2))));
}

void BM_ByWorkTaskExited(benchmark::State& state) {
  Measure(
      state,
      [](Server& server) {
        server.SubmitMicroseconds();
        return server.ExitMicroseconds();
      },
      ByWork(), state.range(2) == 0);
}
void BM_ByWorkGpuSampled(benchmark::State& state) {
  Measure(
      state, [](Server& server) { return server.SampleMicroseconds(); }, ByWork(),
      state.range(2) == 0);
}
// A thousand tasks come to an empty server at once: one pass places all that fit.
void BM_ByWorkFirstPass(benchmark::State& state) {
  for (auto _ : state) {
    Server server(0, 8, ByWork(), state.range(0) == 0);
    server.FreeAll();
    state.SetIterationTime(server.SubmitBatch(1'000));
  }
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
void SizesAndLooks(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queued", "gpus", "backfill"})->ArgsProduct({{10'000}, {16}, {1, 1'000}});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(2'000);
}
void SizesAndKinds(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queued", "gpus", "distinct"})->ArgsProduct({{100, 10'000}, {8, 16}, {0, 1}});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(1'000);
}
BENCHMARK(BM_TaskExited)->Apply(Sizes);
BENCHMARK(BM_GpuSampled)->Apply(Sizes);
BENCHMARK(BM_TaskSubmitted)->Apply(Sizes);
BENCHMARK(BM_FairTaskExited)->Apply(SizesAndLooks);
BENCHMARK(BM_FairGpuSampled)->Apply(SizesAndLooks);
BENCHMARK(BM_ByWorkTaskExited)->Apply(SizesAndKinds);
BENCHMARK(BM_ByWorkGpuSampled)->Apply(SizesAndKinds);
BENCHMARK(BM_ByWorkFirstPass)
    ->ArgName("distinct")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SubmitBatch)
    ->ArgName("tasks")
    ->Arg(10'000)
    ->Arg(100'000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carma::core
