// Checks that no task at the head of the queue can be overtaken forever, under random loads and
// with every mapper.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

constexpr Duration kPeriod{60'000};
constexpr Duration kPassLimit = 10 * kPeriod;
constexpr Duration kLongest = 60 * kPeriod;  // longest run time of any task
constexpr int kGpus = 4;
constexpr std::int64_t kGpuMib = 40'000;

// A server that starts and ends tasks of any size and length.
class PassingWorld {
 public:
  PassingWorld(std::uint64_t seed, const std::string& mapper)
      : rng_(seed), scheduler_(Policy(mapper)) {
    std::vector<GpuInfo> infos;
    for (int i = 0; i < kGpus; ++i)
      infos.push_back({.uuid = "GPU-" + std::to_string(i), .type = "A100", .total_mib = kGpuMib});
    Tell(GpusDiscovered{infos});
    for (std::uint32_t i = 0; i < kGpus; ++i) {
      GpuSample sample;
      sample.taken = now_;
      sample.window_from = now_ - kPeriod;
      sample.sm_active = 0.1;
      Tell(GpuSampled{GpuIndex{i}, sample});
    }
  }

  // Runs until all tasks have ended. Returns the longest time that any task spent at the head of
  // the queue.
  Duration LongestFirst(int tasks) {
    for (int i = 0; i < tasks; ++i) {
      TaskRequest request;
      const std::uint64_t wide = rng_.Below(20);
      request.gpus = wide == 0 ? 4 : wide < 4 ? 2 : 1;
      now_ += Duration(static_cast<std::int64_t>(rng_.Exponential(40'000)));
      PassUntil(now_);
      const TaskId id{static_cast<std::uint64_t>(i + 1)};
      const double share = rng_.Uniform();
      Tell(TaskSubmitted{id, request});
      Tell(EstimateReady{
          id, Estimate{500 + static_cast<std::int64_t>(share * share * 39'000), "given"}});
    }
    while (!due_.empty()) PassUntil(due_.begin()->first);
    EXPECT_TRUE(scheduler_.Tasks().empty());
    return longest_;
  }

 private:
  static PolicyConfig Policy(const std::string& mapper) {
    PolicyConfig config;
    config.mapper = mapper;
    config.backfill = 1'000;
    config.pass_limit = kPassLimit;
    config.min_gain = 0.06;
    config.margin_mib = 0;
    config.settle = false;
    config.stale_after = std::chrono::hours(24 * 365);
    return config;
  }
  void PassUntil(Time until) {
    while (!due_.empty() && due_.begin()->first <= until) {
      now_ = due_.begin()->first;
      const TaskId ends = due_.begin()->second;
      due_.erase(due_.begin());
      if (ends == TaskId{}) {
        Tell(WakeUp{});
      } else {
        Tell(TaskExited{ends, 1, {}});
      }
    }
    now_ = until;
  }
  void Tell(const Event& event) {
    std::vector<Action> actions = scheduler_.Handle(now_, event);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (const auto* wake = std::get_if<WakeAt>(&actions[i])) due_.emplace(wake->when, TaskId{});
      if (const auto* start = std::get_if<StartTask>(&actions[i])) {
        const auto takes = static_cast<std::int64_t>(rng_.Below(kLongest.count()));
        due_.emplace(now_ + Duration(takes), start->id);
        for (Action& more : scheduler_.Handle(now_, TaskStarted{start->id, start->attempt}))
          actions.push_back(std::move(more));
      }
    }
    const std::vector<TaskId> line = scheduler_.InLine(1).with_gpus;
    const TaskId first = line.empty() ? TaskId{} : line.front();
    longest_ = std::max(longest_, first_ == TaskId{} ? Duration{0} : now_ - since_);
    if (first != std::exchange(first_, first)) since_ = now_;
  }

  base::Rng rng_;
  Scheduler scheduler_;
  Time now_ = base::FromMs(1'000'000);
  std::multimap<Time, TaskId> due_;  // ends of tasks, and wake-ups (without a task)
  TaskId first_{};
  Time since_{};
  Duration longest_{};
};

TEST(Passing, TheHeadStartsWithinTwoLimitsAndTheLongestRun) {
  Duration longest{};
  for (const std::string mapper : {"by-work", "magm", "best-fit", "round-robin"}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const Duration first = PassingWorld(seed, mapper).LongestFirst(150);
      EXPECT_LE(first, 2 * kPassLimit + kLongest) << mapper << " " << seed;
      longest = std::max(longest, first);
    }
  }
  // At least one task was overtaken until GPUs were kept for it.
  EXPECT_GT(longest, kPassLimit);
}

}  // namespace
}  // namespace carma::core
