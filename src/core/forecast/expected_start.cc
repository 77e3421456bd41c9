#include "core/forecast/expected_start.h"

#include <algorithm>
#include <map>

namespace carma::core {
namespace {

constexpr Time kNoTime = Time::max();
// Maximum number of consecutive reservations to consider.
constexpr int kMostPeriods = 64;

// A set of interchangeable GPUs. All tasks that may use exactly this set share the pool.
struct Pool {
  std::vector<bool> gpus;
  std::vector<Time> free;  // ascending; kNoTime if unknown
};

bool IsKeptFrom(const ExpectedGpu& gpu, const ExpectedTask& task) {
  return RunsInto(gpu.booked, {.to = kNoTime, .own = task.own_reservations}) != nullptr;
}

// The GPUs that the task may use. GPUs reserved for other tasks are excluded if enough GPUs remain
// without them.
std::vector<bool> PoolOf(std::span<const ExpectedGpu> gpus, const ExpectedTask& task) {
  std::vector<bool> open = task.may;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (open[i] && IsKeptFrom(gpus[i], task)) open[i] = false;
  }
  const auto enough = static_cast<std::size_t>(std::ranges::count(open, true));
  return enough >= task.gpus ? open : task.may;
}

// The first time at or after `start` at which no reservation excludes the task from any GPU of the
// pool.
Time PastReservations(std::span<const ExpectedGpu> gpus, const std::vector<bool>& pool,
                      const ExpectedTask& task, Time start) {
  for (int i = 0; i < kMostPeriods && start != kNoTime; ++i) {
    const ReservedPeriod* into = nullptr;
    for (std::size_t gpu = 0; gpu < gpus.size() && into == nullptr; ++gpu) {
      if (!pool[gpu]) continue;
      into = RunsInto(gpus[gpu].booked,
                      {.from = start, .to = start + task.runs_into, .own = task.own_reservations});
    }
    if (into == nullptr) return start;
    start = into->to;
  }
  return kNoTime;
}

std::size_t Both(const std::vector<bool>& a, const std::vector<bool>& b) {
  std::size_t both = 0;
  for (std::size_t i = 0; i < a.size(); ++i) both += a[i] && b[i] ? 1 : 0;
  return both;
}

class Line {
 public:
  Line(Time now, std::span<const ExpectedGpu> gpus, std::span<const ExpectedTask> tasks,
       std::span<const ExpectedReturn> returning)
      : now_(now), gpus_(gpus), tasks_(tasks), returning_(returning) {
    for (const ExpectedTask& task : tasks) {
      const std::vector<bool> wanted = PoolOf(gpus, task);
      const auto [at, added] = numbers_.try_emplace(wanted, pools_.size());
      if (added) pools_.push_back({wanted, FreeIn(wanted)});
      pool_of_.push_back(at->second);
    }
  }

  std::vector<std::optional<Time>> InOrder(Duration asked_for) {
    std::vector<std::optional<Time>> starts(tasks_.size());
    Time before = now_;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const ExpectedTask& task = tasks_[i];
      const Pool& pool = pools_[pool_of_[i]];
      if (task.gpus > pool.free.size()) break;
      const Time start =
          PastReservations(gpus_, pool.gpus, task,
                           task.gpus == 0 ? before : std::max(before, pool.free[task.gpus - 1]));
      if (start == kNoTime) break;  // no task behind this one starts earlier
      starts[i] = start;
      before = start + asked_for;
      Take(task, task.takes ? start + *task.takes : kNoTime);
    }
    return starts;
  }

  std::vector<std::optional<Time>> OutOfOrder(Pass pass) const {
    std::vector<std::optional<Time>> starts(tasks_.size());
    std::vector<Work> work;
    for (const Pool& pool : pools_) work.push_back(WorkIn(pool));
    const Work all = WorkIn(
        {std::vector<bool>(gpus_.size(), true), FreeIn(std::vector<bool>(gpus_.size(), true))});
    std::size_t least_busy = gpus_.size();
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      least_busy = std::min(least_busy, BusyWhileItWaits(i, work[pool_of_[i]]));
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const ExpectedTask& task = tasks_[i];
      const Pool& pool = pools_[pool_of_[i]];
      const bool freely = pass == Pass::kFreely;
      const std::size_t own_busy = BusyWhileItWaits(i, work[pool_of_[i]]);
      const std::size_t busy = freely                    ? own_busy
                               : pass == Pass::kAnyOrder ? least_busy
                               : least_busy == 0         ? 0
                                                         : 1;
      if (task.gpus == 0 || own_busy == 0 || busy == 0) continue;
      Duration todo = freely ? work[pool_of_[i]].todo : all.todo;
      if (task.takes) todo -= static_cast<std::int64_t>(TakenOf(task, pool.gpus)) * *task.takes;
      const Time start =
          PastReservations(gpus_, pool.gpus, task, now_ + todo / static_cast<std::int64_t>(busy));
      if (start != kNoTime) starts[i] = start;
    }
    return starts;
  }

 private:
  // Total remaining work on a pool's GPUs.
  struct Work {
    Duration todo{};
    std::size_t endless = 0;  // GPUs that might be held forever
  };

  static std::size_t TakenOf(const ExpectedTask& task, const std::vector<bool>& pool) {
    return std::min(task.gpus, Both(task.may, pool));
  }

  // Minimum number of GPUs in the task's pool that are busy while the task waits; 0 if unknown.
  std::size_t BusyWhileItWaits(std::size_t i, const Work& work) const {
    const ExpectedTask& task = tasks_[i];
    const Pool& pool = pools_[pool_of_[i]];
    const std::size_t endless = work.endless - (task.takes ? 0 : TakenOf(task, pool.gpus));
    const std::size_t left = pool.free.size() - std::min(endless, pool.free.size());
    return left < task.gpus ? 0 : left - task.gpus + 1;
  }

  std::vector<Time> FreeIn(const std::vector<bool>& pool) const {
    std::vector<Time> free;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (pool[i]) free.push_back(std::max(now_, gpus_[i].free_at.value_or(kNoTime)));
    }
    std::ranges::sort(free);
    for (const ExpectedReturn& each : returning_) {
      const std::size_t there = std::min(each.gpus, Both(each.holds, pool));
      for (std::size_t i = there; i < std::min(each.gpus, Both(each.may, pool)); ++i)
        free[i - there] = kNoTime;
      std::ranges::sort(free);
    }
    return free;
  }

  void Take(const ExpectedTask& task, Time until) {
    for (Pool& pool : pools_) {
      const std::size_t taken = TakenOf(task, pool.gpus);
      for (std::size_t i = 0; i < taken; ++i) pool.free[i] = std::max(pool.free[i], until);
      std::ranges::sort(pool.free);
    }
  }

  Work WorkIn(const Pool& pool) const {
    Work work;
    for (const Time free : pool.free) {
      if (free == kNoTime) {
        ++work.endless;
      } else {
        work.todo += free - now_;
      }
    }
    for (const ExpectedTask& task : tasks_) {
      const std::size_t taken = TakenOf(task, pool.gpus);
      if (task.takes) {
        work.todo += static_cast<std::int64_t>(taken) * *task.takes;
      } else {
        work.endless += taken;
      }
    }
    return work;
  }

  Time now_;
  std::span<const ExpectedGpu> gpus_;
  std::span<const ExpectedTask> tasks_;
  std::span<const ExpectedReturn> returning_;
  std::map<std::vector<bool>, std::size_t> numbers_;
  std::vector<Pool> pools_;
  std::vector<std::size_t> pool_of_;  // by task
};

}  // namespace

std::vector<std::optional<Time>> LatestStarts(Time now, std::span<const ExpectedGpu> gpus,
                                              std::span<const ExpectedTask> line, Pass pass,
                                              std::span<const ExpectedReturn> returning,
                                              Duration asked_for) {
  Line all(now, gpus, line, returning);
  return pass == Pass::kInOrder ? all.InOrder(asked_for) : all.OutOfOrder(pass);
}

}  // namespace carma::core
