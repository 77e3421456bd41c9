// Feeds random events to the scheduler. Its records must stay consistent, and identical histories
// must produce identical actions.
#include "core/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "core/scheduler/published_rules.h"
#include "core/scheduler/scheduler_fixture.h"

namespace carma::core {
namespace {

// Generates plausible and implausible events in response to the core's actions.
class World {
 public:
  World(std::uint64_t seed, PolicyConfig config, int gpus)
      : rng_(seed), scheduler_(std::move(config)), gpus_(gpus) {
    std::vector<GpuInfo> infos = Gpus(gpus);
    infos.back().mig = true;
    Bring(GpusDiscovered{std::move(infos)});
  }

  void Step() {
    now_ += Duration{static_cast<std::int64_t>(rng_.Below(3'000))};
    const std::uint64_t kind = rng_.Below(26);
    if (kind < 6 || kind >= 22) return Bring(Sample());
    if (kind < 10) return Bring(Submit());
    const TaskId id{1 + rng_.Below(next_id_)};
    const int attempt = started_[Number(id)] - (rng_.Below(10) == 0 ? 1 : 0);
    switch (kind) {
      case 10:
        return Bring(CancelRequested{id, "chance"});
      case 11:
        return Bring(HoldRequested{id});
      case 12:
        return Bring(ReleaseRequested{id});
      case 13:
        return Bring(RequeueRequested{id});
      case 14:
        return Bring(LaunchFailed{id, attempt, "chance", rng_.Below(2) == 0});
      case 15:
        return Bring(GpuHealthChanged{Gpu(), rng_.Below(6) != 0, rng_.Below(12) == 0, "chance"});
      case 16:
        return rng_.Below(4) == 0 ? Bring(DrainRequested{Gpu(), "chance", rng_.Below(2) == 0})
                                  : Bring(ResumeRequested{Gpu(), rng_.Below(2) == 0});
      case 17:
        return Bring(PriorityChanged{id, static_cast<std::int64_t>(rng_.Below(5))});
      case 18:
        return Bring(SharingChosen{id, attempt, {.method = SharingMethod::kMps}});
      case 19:
        return Bring(
            TaskIdle{id, attempt, rng_.Below(2) == 0 ? std::optional(now_) : std::nullopt});
      case 20:
        return Bring(PolicyChanged{OtherMargin()});
      default:
        return Exit();
    }
  }

  // Ends all waiting and running tasks without submitting new ones.
  void Finish() {
    for (int round = 0; round < 100'000 && !scheduler_.Tasks().empty(); ++round) {
      now_ += Duration{1'000};
      if (scheduler_.Tasks().begin()->second.state == TaskState::kQueued) {
        Bring(CancelRequested{scheduler_.Tasks().begin()->first, "end"});
      } else {
        const TaskRecord& task = scheduler_.Tasks().begin()->second;
        Bring(TaskExited{task.id, task.attempt->number, {}});
      }
    }
  }

  int starts() const { return starts_; }
  const std::vector<Action>& all() const { return all_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  void Bring(const Event& event) { Bring(std::vector<Event>{event}); }
  void Bring(std::vector<Event> events) {
    while (!events.empty()) {
      const std::vector<Action> actions = scheduler_.HandleAll(now_, events);
      events.clear();
      for (const Action& action : actions) {
        if (const auto* start = std::get_if<StartTask>(&action)) {
          started_[Number(start->id)] = start->attempt;
          ++starts_;
          if (rng_.Below(4) != 0) events.emplace_back(TaskStarted{start->id, start->attempt});
        } else if (const auto* asks = std::get_if<RequestEstimate>(&action)) {
          EstimateReady answer{asks->id, std::nullopt};
          if (rng_.Below(4) != 0)
            answer.estimate = Estimate{static_cast<std::int64_t>(rng_.Below(45'000)), "chance"};
          events.emplace_back(answer);
        }
        all_.push_back(action);
      }
      if (!wrong_) wrong_ = scheduler_.CheckBooks();
      if (!wrong_) wrong_ = Promises();
    }
  }

  PolicyConfig OtherMargin() {
    PolicyConfig policy = scheduler_.config();
    policy.margin_mib = static_cast<std::int64_t>(rng_.Below(10'000));
    return policy;
  }

  // Checks that the guards' guarantees hold on every GPU.
  std::optional<std::string> Promises() const {
    std::vector<double> shares(gpus_);
    std::vector<int> tasks(gpus_);
    for (const auto& [id, task] : scheduler_.Tasks()) {
      if (!HoldsGpus(task.state)) continue;
      for (const Placement& each : task.attempt->placement) {
        ++tasks[Number(each.gpu)];
        shares[Number(each.gpu)] += task.request->sm_share.value_or(0);
        const bool instance = scheduler_.GpuInfos()[Number(each.gpu)].mig;
        if (instance && task.request->gpus > 1) return "an instance holds a part of a task";
      }
    }
    if (tasks.back() > 1 && !scheduler_.config().share_mig) return "several tasks on an instance";
    if (std::ranges::any_of(shares, [](double sum) { return sum > 1 + 1e-6; }))
      return "more than all SMs are promised";
    return std::nullopt;
  }

  GpuIndex Gpu() { return GpuIndex{static_cast<std::uint32_t>(rng_.Below(gpus_))}; }

  // Most samples are plausible. Some are late or wrong, or lack memory or activity.
  std::vector<Event> Sample() {
    std::vector<Event> events;
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      if (rng_.Below(12) == 0) continue;
      GpuSample sample;
      sample.taken = now_ - Duration{static_cast<std::int64_t>(rng_.Below(2'000))};
      sample.window_from = sample.taken - Duration{static_cast<std::int64_t>(rng_.Below(60'000))};
      if (rng_.Below(8) != 0) sample.sm_active = rng_.Uniform();
      sample.attributed = rng_.Below(8) != 0;
      sample.foreign_processes = rng_.Below(8) == 0 ? 1 : 0;
      sample.used_mib = sample.foreign_processes * 500;
      for (const auto& [id, task] : scheduler_.Tasks()) {
        const bool here = std::ranges::any_of(task.attempt->placement, [&](const Placement& each) {
          return Number(each.gpu) == gpu;
        });
        if (!here || rng_.Below(4) == 0) continue;
        sample.tasks_mib.emplace_back(id, rng_.Below(20'000));
        sample.used_mib += sample.tasks_mib.back().second;
      }
      events.emplace_back(GpuSampled{GpuIndex{gpu}, sample});
    }
    return events;
  }

  Event Submit() {
    TaskRequest request;
    request.gpus = 1 + static_cast<int>(rng_.Below(gpus_ + 1));
    request.exclusive = rng_.Below(6) == 0;
    if (rng_.Below(3) == 0) request.sm_share = 0.05 * static_cast<double>(1 + rng_.Below(20));
    request.priority = static_cast<std::int64_t>(rng_.Below(3));
    request.held = rng_.Below(8) == 0;
    request.requeue = rng_.Below(2) == 0;
    request.max_recoveries = static_cast<int>(rng_.Below(4));
    if (rng_.Below(4) == 0) request.begin = now_ + Duration{20'000};
    if (rng_.Below(3) == 0) request.time_limit = Duration{30'000};
    if (rng_.Below(3) == 0) {
      request.dependencies.push_back({TaskId{1 + rng_.Below(next_id_ + 1)},
                                      static_cast<DependencyKind>(rng_.Below(3)), std::nullopt});
    }
    return TaskSubmitted{TaskId{++next_id_}, request};
  }

  void Exit() {
    std::vector<TaskId> there;
    for (const auto& [id, task] : scheduler_.Tasks()) {
      if (HoldsGpus(task.state)) there.push_back(id);
    }
    if (there.empty()) return Bring(WakeUp{});
    const TaskId id = there[rng_.Below(there.size())];
    ExitInfo exit{.kind = static_cast<ExitKind>(rng_.Below(8))};
    Bring(TaskExited{id, scheduler_.Find(id)->attempt->number, exit});
  }

  base::Rng rng_;
  Scheduler scheduler_;
  std::uint64_t gpus_;
  Time now_{};
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, int> started_;
  int starts_ = 0;
  std::vector<Action> all_;
  std::optional<std::string> wrong_;
};

struct Chance {
  std::string name;
  PolicyConfig config;
};

std::vector<Chance> Policies() {
  std::vector<Chance> all;
  for (const MapperEntry& mapper : Mappers()) {
    PolicyConfig config;
    config.mapper = mapper.name;
    config.recovery_patience = Duration{30'000};
    config.stale_after = Duration{30'000};
    config.settle_timeout = Duration{20'000};
    if (mapper.name == kScoreMapper) {
      config.score = *GpuRule::Parse("free_mib - 5000 * own_tasks + waited_s * gain");
      config.require = *GpuRule::Parse("own_tasks < 3 or activity < 0.5");
    }
    all.push_back({std::string(mapper.name), config});
    config.recovery = RecoveryMode::kExclusive;
    config.settle = false;
    config.use_given_memory = false;
    all.push_back({std::string(mapper.name) + " without estimates", config});
    config.share_mig = true;
    config.idle_action = IdleAction::kShare;
    all.push_back({std::string(mapper.name) + " with what idles", config});
    config.idle_action = IdleAction::kEnd;
    for (const char* era : {"thesis", "v2"})
      all.push_back({std::string(mapper.name) + " " + era, *AsPublished(era, config)});
  }
  return all;
}

TEST(Chance, RecordsAgreeAfterEveryEventAndNothingIsLeft) {
  std::uint64_t seed = 0;
  for (const Chance& policy : Policies()) {
    ASSERT_TRUE(Validate(policy.config)) << policy.name;
    ++seed;
    World world(seed, policy.config, 1 + static_cast<int>(seed % 4));
    for (int i = 0; i < 1'000 && !world.wrong(); ++i) world.Step();
    ASSERT_EQ(world.wrong(), std::nullopt) << policy.name;
    EXPECT_GT(world.starts(), 3) << policy.name;
    world.Finish();
    ASSERT_EQ(world.wrong(), std::nullopt) << policy.name;
    EXPECT_TRUE(world.scheduler().Tasks().empty()) << policy.name;
    for (const GpuView& view : world.scheduler().Gpus(At(1e9))) {
      EXPECT_EQ(view.claimed_mib, 0) << policy.name;
      EXPECT_EQ(view.tasks, 0) << policy.name;
    }
  }
}

TEST(Chance, EqualHistoriesGiveEqualActions) {
  for (const Chance& policy : Policies()) {
    World first(42, policy.config, 3);
    World second(42, policy.config, 3);
    for (int i = 0; i < 500; ++i) {
      first.Step();
      second.Step();
    }
    EXPECT_TRUE(first.all() == second.all()) << policy.name;
  }
}

}  // namespace
}  // namespace carma::core
