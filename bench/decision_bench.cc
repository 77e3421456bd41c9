// Measures how long the core takes for one decision, depending on the queue length and the number
// of GPUs.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "bench/percentile.h"
#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

using Clock = std::chrono::steady_clock;

PolicyConfig HeadOnly() {
  PolicyConfig config;
  config.settle = false;  // so four tasks can start on a GPU at the same time
  config.margin_mib = 1'000;
  config.stale_after = std::chrono::hours(24);  // only some benchmarks send samples
  return config;
}
constexpr std::uint64_t kUsers = 200;
constexpr std::uint64_t kAccounts = 10;
// Fair order with two hundred users.
PolicyConfig Fair(int backfill) {
  PolicyConfig config = HeadOnly();
  config.order = QueueOrder::kFair;
  config.backfill = backfill;
  return config;
}
// Chooses task and GPU together from the first thousand tasks.
PolicyConfig ByWork() {
  PolicyConfig config = HeadOnly();
  config.mapper = "by-work";
  config.backfill = 1'000;
  config.min_gain = 0.01;
  return config;
}

// Accounts, classes and limits, as on a server with many users.
PolicyConfig ManyPeople(QueueOrder order, bool by_work) {
  PolicyConfig config = by_work ? ByWork() : Fair(1'000);
  config.order = order;
  for (std::uint64_t i = 0; i < kAccounts; ++i)
    config.accounts.push_back({"lab" + std::to_string(i), {"*"}});
  config.limits = {{.user = "*", .running = 4, .gpus = 8},
                   {.user = "*", .qos = "interactive", .running = 1},
                   {.account = "*", .running = 40},
                   {.user = "*", .gpu_hours = 1'000, .period = std::chrono::hours(24 * 7)}};
  return config;
}

// How the users' requests differ.
enum class People {
  kAlike,     // all the same
  kDistinct,  // no two of a thousand tasks the same
  kMany,      // like kDistinct, but with accounts and classes
};

// CPU time of this thread. On a shared machine, wall-clock time would include other work.
double CpuMicroseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}
struct Took {
  double us = 0;
  double cpu_us = 0;
  Took operator+(const Took& other) const { return {us + other.us, cpu_us + other.cpu_us}; }
};

// A server full of running tasks, with a queue whose head does not fit.
class Server {
 public:
  Server(std::int64_t queued, int gpus, const PolicyConfig& config = HeadOnly(),
         People people = People::kAlike)
      : gpus_(gpus), people_(people), scheduler_(config) {
    std::vector<GpuInfo> infos;
    for (int i = 0; i < gpus; ++i) {
      infos.push_back(
          {.uuid = "GPU-" + std::to_string(i), .type = "A100-40GB", .total_mib = 40'536});
    }
    scheduler_.Handle(now_, GpusDiscovered{infos});
    for (int i = 0; i < gpus; ++i) scheduler_.Handle(now_, Sample(i));
    for (int i = 0; i < 4 * gpus; ++i) Submit(9'000);
    // Some policies start fewer than four tasks on each GPU; the rest are already in the queue.
    SubmitBatch(queued - (4 * gpus - std::ssize(running_)));
  }

  // Measures one whole decision: a running task ends, and the head of the queue takes its place.
  Took Exit() {
    const TaskId first = running_.front();
    running_.erase(running_.begin());
    now_ += Duration{10};
    return Timed(TaskExited{first, 1, {}});
  }
  Took Read() {
    now_ += Duration{10};
    next_gpu_ = (next_gpu_ + 1) % gpus_;
    return Timed(Sample(next_gpu_));
  }
  Took SubmitOne() {
    now_ += Duration{10};
    const TaskId id{++last_};
    const Took submit = Timed(TaskSubmitted{id, Request()});
    return submit + Timed(EstimateReady{id, Estimate{NextNeedMib(), "given"}});
  }
  void FreeAll() {
    for (const TaskId id : std::exchange(running_, {}))
      scheduler_.Handle(now_, TaskExited{id, 1, {}});
  }
  // Returns the time taken to queue these tasks and decide which of them start.
  Took SubmitBatch(std::int64_t count) {
    std::vector<Event> submitted;
    std::vector<Event> estimated;
    for (std::int64_t i = 0; i < count; ++i) {
      const TaskId id{++last_};
      submitted.emplace_back(TaskSubmitted{id, Request()});
      estimated.emplace_back(EstimateReady{id, Estimate{NextNeedMib(), "given"}});
    }
    Note(scheduler_.HandleAll(now_, submitted));
    return Timed(estimated);
  }

 private:
  std::int64_t NextNeedMib() {
    if (people_ == People::kAlike) return 9'000;
    return 8'000 + static_cast<std::int64_t>(last_ % 1'000);
  }
  TaskRequest Request() const {
    TaskRequest request;
    const std::uint64_t user = last_ % kUsers;
    request.uid = static_cast<std::uint32_t>(user);
    if (people_ != People::kMany) return request;
    request.user = "user" + std::to_string(user);
    request.account = "lab" + std::to_string(user % kAccounts);
    const std::uint64_t kind = last_ / kUsers % 10;
    if (kind == 0) request.qos = "interactive";
    if (kind > 6) request.qos = "background";
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
  Took Timed(const Event& event) { return Timed(std::vector<Event>{event}); }
  Took Timed(const std::vector<Event>& events) {
    const double cpu_from_us = CpuMicroseconds();
    const Clock::time_point from = Clock::now();
    std::vector<Action> actions = scheduler_.HandleAll(now_, events);
    const std::chrono::duration<double, std::micro> spent = Clock::now() - from;
    const double cpu_us = CpuMicroseconds() - cpu_from_us;
    Note(std::move(actions));
    return {spent.count(), cpu_us};
  }
  // Acts like the daemon: tells the core that each task it starts is running, and wakes it at once
  // if it asks for that. Each of these events may start further tasks.
  void Note(std::vector<Action> actions) {
    while (!actions.empty()) {
      std::vector<Event> events;
      for (const Action& action : actions) {
        if (const auto* start = std::get_if<StartTask>(&action)) {
          running_.push_back(start->id);
          events.emplace_back(TaskStarted{start->id, start->attempt});
        } else if (const auto* wake = std::get_if<WakeAt>(&action); wake && wake->when <= now_) {
          events.emplace_back(WakeUp{});
        }
      }
      actions = events.empty() ? std::vector<Action>() : scheduler_.HandleAll(now_, events);
    }
  }

  int gpus_;
  People people_;
  int next_gpu_ = 0;
  Time now_ = base::FromMs(1'000'000);
  std::uint64_t last_ = 0;
  base::Rng rng_{1};
  Scheduler scheduler_;
  std::vector<TaskId> running_;
};

void Report(benchmark::State& state, const std::vector<Took>& took) {
  if (took.empty()) return;
  std::vector<double> us;
  std::vector<double> cpu_us;
  for (const Took& each : took) {
    us.push_back(each.us);
    cpu_us.push_back(each.cpu_us);
  }
  state.counters["p50_us"] = bench::Percentile(us, 0.50);
  state.counters["p99_us"] = bench::Percentile(us, 0.99);
  state.counters["max_us"] = bench::Percentile(us, 1);
  state.counters["cpu_p50_us"] = bench::Percentile(cpu_us, 0.50);
  state.counters["cpu_p99_us"] = bench::Percentile(cpu_us, 0.99);
}

template <class Step>
void Measure(benchmark::State& state, Step step, const PolicyConfig& config = HeadOnly(),
             People people = People::kAlike) {
  Server server(state.range(0), static_cast<int>(state.range(1)), config, people);
  std::vector<Took> took;
  for (auto _ : state) {
    took.push_back(step(server));
    state.SetIterationTime(took.back().us * 1e-6);
  }
  Report(state, took);
}
// Measures one pass over a thousand tasks that arrive at an empty server at the same time. The pass
// places all tasks that fit.
void MeasureFirstPass(benchmark::State& state, const PolicyConfig& config, People people) {
  std::vector<Took> took;
  for (auto _ : state) {
    Server server(0, 8, config, people);
    server.FreeAll();
    took.push_back(server.SubmitBatch(1'000));
    state.SetIterationTime(took.back().us * 1e-6);
  }
  Report(state, took);
}

// Submits a new task for each task that ends, to keep the queue at the same length.
Took OneForAnother(Server& server) {
  server.SubmitOne();
  return server.Exit();
}
Took OneReading(Server& server) {
  return server.Read();
}

void BM_TaskExited(benchmark::State& state) {
  Measure(state, OneForAnother);
}
void BM_GpuSampled(benchmark::State& state) {
  Measure(state, OneReading);
}
void BM_TaskSubmitted(benchmark::State& state) {
  Measure(state, [](Server& server) { return server.SubmitOne(); });
}

PolicyConfig FairOf(const benchmark::State& state) {
  return Fair(static_cast<int>(state.range(2)));
}
void BM_FairTaskExited(benchmark::State& state) {
  Measure(state, OneForAnother, FairOf(state));
}
void BM_FairGpuSampled(benchmark::State& state) {
  Measure(state, OneReading, FairOf(state));
}

People AlikeOr(bool distinct) {
  return distinct ? People::kDistinct : People::kAlike;
}
void BM_ByWorkTaskExited(benchmark::State& state) {
  Measure(state, OneForAnother, ByWork(), AlikeOr(state.range(2) != 0));
}
void BM_ByWorkGpuSampled(benchmark::State& state) {
  Measure(state, OneReading, ByWork(), AlikeOr(state.range(2) != 0));
}
void BM_ByWorkFirstPass(benchmark::State& state) {
  MeasureFirstPass(state, ByWork(), AlikeOr(state.range(0) != 0));
}

PolicyConfig ManyPeopleOf(const benchmark::State& state, int first) {
  return ManyPeople(state.range(first) != 0 ? QueueOrder::kFair : QueueOrder::kFifo,
                    state.range(first + 1) != 0);
}
void BM_ManyPeopleTaskExited(benchmark::State& state) {
  Measure(state, OneForAnother, ManyPeopleOf(state, 2), People::kMany);
}
void BM_ManyPeopleGpuSampled(benchmark::State& state) {
  Measure(state, OneReading, ManyPeopleOf(state, 2), People::kMany);
}
void BM_ManyPeopleTaskSubmitted(benchmark::State& state) {
  Measure(
      state, [](Server& server) { return server.SubmitOne(); }, ManyPeopleOf(state, 2),
      People::kMany);
}
void BM_ManyPeopleFirstPass(benchmark::State& state) {
  MeasureFirstPass(state, ManyPeopleOf(state, 0), People::kMany);
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
// Compares order of submission with fair order, for each way of choosing GPUs.
void SizesAndOrders(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queued", "gpus", "fair", "by_work"})
      ->ArgsProduct({{10'000}, {16}, {0, 1}, {0, 1}});
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
BENCHMARK(BM_ManyPeopleTaskExited)->Apply(SizesAndOrders);
BENCHMARK(BM_ManyPeopleGpuSampled)->Apply(SizesAndOrders);
BENCHMARK(BM_ManyPeopleTaskSubmitted)->Apply(SizesAndOrders);
BENCHMARK(BM_ManyPeopleFirstPass)
    ->ArgNames({"fair", "by_work"})
    ->ArgsProduct({{0, 1}, {0, 1}})
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
