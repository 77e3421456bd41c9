// Compares the expected starts of waiting tasks with their actual starts. The tasks of the
// simulated server come in all sizes, share GPUs, and end at or before their limits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

constexpr Duration kStep{30'000};
constexpr Duration kMinute{60'000};
constexpr int kFirst = 60;  // number of tasks at the beginning

struct Figures {
  int told = 0;        // number of predicted latest starts
  int late = 0;        // number of starts later than predicted
  double slack_s = 0;  // sum of predicted minus actual starts
};

class Play {
 public:
  Play(const PolicyConfig& policy, unsigned seed)
      : core_(policy),
        random_(seed),
        classes_(!policy.classes.empty()),
        parts_(policy.slots.length ? 4 : 1) {
    std::vector<GpuInfo> gpus;
    for (int i = 0; i < 4; ++i) {
      gpus.push_back({.uuid = fmt::format("GPU-{}", i),
                      .type = i < 3 ? "A100" : "T4",
                      .total_mib = i < 3 ? 40'000 : 16'000});
    }
    Tell({GpusDiscovered{gpus}});
    Tell(Samples());
    Submit(kFirst);
  }

  Figures Run() {
    for (int step = 0; step < 20'000 && !core_.Tasks().empty(); ++step) {
      now_ += kStep;
      if (step == 40) Submit(20);  // behind all other tasks
      if (Upto(16) == 0) NotePromises();
      std::vector<Event> events = Samples();
      for (const auto& [id, run] : runs_) {
        if (run.ends <= now_) {
          events.emplace_back(TaskExited{id, run.attempt, {}});
          ended_.push_back(id);
        } else if (run.saved_at && *run.saved_at <= now_) {
          events.emplace_back(TaskExited{id, run.attempt, {.kind = ExitKind::kFailed, .code = 85}});
          Interrupt(id, run);
          ended_.push_back(id);
        }
      }
      for (const TaskId id : std::exchange(ended_, {})) runs_.erase(id);
      Tell(events);
    }
    EXPECT_TRUE(core_.Tasks().empty()) << "all ended";
    return figures_;
  }

 private:
  struct OneRun {
    int attempt = 0;
    Time started{};
    Time ends{};
    std::optional<Time> saved_at;  // when it exits by itself after being asked to checkpoint
    std::vector<GpuIndex> gpus;
    std::int64_t uses_mib = 0;
    Time seen{};  // samples show its memory and activity from then on
    double activity = 0.3;
  };

  int Upto(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }

  void Submit(int count) {
    for (int i = 0; i < count; ++i) {
      const TaskId id{++last_};
      TaskRequest request;
      const int user = Upto(3);
      request.user = fmt::format("user{}", user);
      request.uid = static_cast<std::uint32_t>(1001 + user);
      request.gpus = Upto(5) == 0 ? 2 : 1;
      request.exclusive = Upto(4) == 0;
      request.time_limit = (5 + Upto(120)) * kMinute;
      if (classes_ && Upto(8) == 0) request.qos = "urgent";
      if (classes_ && (Upto(3) == 0 || last_ > kFirst)) request.qos = "patient";
      request.no_slots = Upto(6) == 0;
      if (Upto(6) == 0) request.gpu_type = Upto(2) == 0 && request.gpus == 1 ? "t4" : "a100";
      const std::int64_t peak_mib =
          request.gpu_type == "t4" ? 1'000 + Upto(12'000) : 1'000 + Upto(30'000);
      takes_[id] = (1 + Upto(static_cast<int>(*request.time_limit / kStep) + 5)) * kStep;
      takes_[id] *= parts_;
      Tell({TaskSubmitted{id, request}});
      Tell({EstimateReady{id, Estimate{peak_mib, "given"}, {}, {}}});
    }
  }

  // The task has saved its work and does not repeat it.
  void Interrupt(TaskId id, const OneRun& run) {
    takes_[id] = std::max(kStep, takes_[id] - (now_ - run.started));
  }

  void NotePromises() {
    for (const auto& [id, start] : core_.ExpectedStarts(now_)) {
      if (start.latest) told_[id].push_back(*start.latest);
    }
  }

  std::vector<Event> Samples() {
    std::vector<Event> events;
    for (std::uint32_t i = 0; i < 4; ++i) {
      GpuSample sample{.taken = now_, .window_from = now_ - kMinute, .sm_active = 0.0};
      for (const auto& [id, run] : runs_) {
        if (std::ranges::find(run.gpus, GpuIndex{i}) == run.gpus.end() || now_ < run.seen) continue;
        sample.used_mib += run.uses_mib;
        sample.tasks_mib.emplace_back(id, run.uses_mib);
        sample.sm_active = std::min(1.0, *sample.sm_active + run.activity);
      }
      events.emplace_back(GpuSampled{GpuIndex{i}, sample});
    }
    return events;
  }

  void Tell(const std::vector<Event>& events) {
    std::vector<Event> answers;
    for (const Action& action : core_.HandleAll(now_, events)) {
      if (const auto* start = std::get_if<StartTask>(&action)) {
        OneRun run{.attempt = start->attempt,
                   .started = now_,
                   .ends = now_ + takes_.at(start->id),
                   .uses_mib = start->placement.front().claim_mib * (1 + Upto(4)) / 4,
                   .seen = now_ + Upto(5) * kStep,
                   .activity = 0.1 * (1 + Upto(6))};
        for (const Placement& each : start->placement) run.gpus.push_back(each.gpu);
        runs_[start->id] = std::move(run);
        for (const Time told : told_[start->id]) {
          ++figures_.told;
          figures_.late += now_ > told ? 1 : 0;
          figures_.slack_s += base::Seconds(told - now_);
        }
        told_.erase(start->id);
        answers.emplace_back(TaskStarted{start->id, start->attempt});
      } else if (const auto* ask = std::get_if<AskToSave>(&action)) {
        if (Upto(2) == 0) runs_.at(ask->id).saved_at = now_ + Upto(10) * kStep;
      } else if (const auto* stop = std::get_if<StopTask>(&action)) {
        Interrupt(stop->id, runs_.at(stop->id));
        runs_.erase(stop->id);
        answers.emplace_back(TaskExited{stop->id, stop->attempt, {.kind = ExitKind::kFailed}});
      }
    }
    EXPECT_EQ(core_.CheckBooks(), std::nullopt);
    if (!answers.empty()) Tell(answers);
  }

  Scheduler core_;
  std::mt19937 random_;
  bool classes_;
  // The time limit applies to each time slice, so a task can run for this many time limits in
  // total.
  int parts_;
  Time now_ = base::FromMs(1'000'000'000);
  std::uint64_t last_ = 0;
  std::map<TaskId, Duration> takes_;
  std::map<TaskId, OneRun> runs_;
  std::vector<TaskId> ended_;
  std::map<TaskId, std::vector<Time>> told_;
  Figures figures_;
};

struct Case {
  const char* name;
  PolicyConfig policy;
  int least_told = 1000;
};

PolicyConfig ExpectingRules(QueueOrder order, int backfill) {
  PolicyConfig policy;
  policy.order = order;
  policy.backfill = backfill;
  policy.stale_after = std::chrono::hours(1);
  policy.limits.clear();
  policy.classes.clear();
  return policy;
}

PolicyConfig RulesWithTurns(PolicyConfig policy) {
  policy.slots = {
      .length = 30 * kMinute, .notice = 5 * kMinute, .without_checkpoint = WithoutCheckpoint::kEnd};
  return policy;
}

PolicyConfig WithClasses(PolicyConfig policy) {
  policy.classes = {{.name = "urgent", .priority = 10, .preempts = true},
                    {.name = "patient", .priority = -10, .preemptible = true}};
  return policy;
}

// The environment variable CARMA_TEST_SEEDS=FIRST,LAST selects other seeds.
std::pair<unsigned, unsigned> Seeds() {
  std::pair<unsigned, unsigned> seeds{1, 3};
  if (const char* const given = std::getenv("CARMA_TEST_SEEDS")) {
    EXPECT_EQ(std::sscanf(given, "%u,%u", &seeds.first, &seeds.second), 2);
  }
  return seeds;
}

TEST(ExpectedStarts, NoTaskStartsLaterThanPredicted) {
  PolicyConfig alone = ExpectingRules(QueueOrder::kFifo, 1);
  alone.mapper = "exclusive";
  const Case cases[] = {
      {"in order", ExpectingRules(QueueOrder::kFifo, 1)},
      {"in order, alone", alone},
      {"passing", ExpectingRules(QueueOrder::kFifo, 100)},
      {"by shares", ExpectingRules(QueueOrder::kFair, 1)},
      {"in order, turns", RulesWithTurns(ExpectingRules(QueueOrder::kFifo, 1))},
      {"in order, alone, turns", RulesWithTurns(alone)},
      {"passing, turns", RulesWithTurns(ExpectingRules(QueueOrder::kFifo, 100)), 0},
      {"by shares, turns", RulesWithTurns(ExpectingRules(QueueOrder::kFair, 1)), 0},
      {"by shares, passing, turns", RulesWithTurns(ExpectingRules(QueueOrder::kFair, 100)), 0},
      {"in order, classes", WithClasses(ExpectingRules(QueueOrder::kFifo, 1)), 100},
      {"in order, turns, classes",
       WithClasses(RulesWithTurns(ExpectingRules(QueueOrder::kFifo, 1))), 100},
      {"in order, alone, turns, classes", WithClasses(RulesWithTurns(alone)), 100},
      {"passing, turns, classes",
       WithClasses(RulesWithTurns(ExpectingRules(QueueOrder::kFifo, 100))), 0}};
  const auto [first, last] = Seeds();
  for (const Case& each : cases) {
    Figures all;
    for (unsigned seed = first; seed <= last; ++seed) {
      const Figures one = Play(each.policy, seed).Run();
      all.told += one.told;
      all.late += one.late;
      all.slack_s += one.slack_s;
    }
    EXPECT_GE(all.told, each.least_told) << each.name;
    EXPECT_EQ(all.late, 0) << each.name << ": " << all.late << " of " << all.told;
    RecordProperty(each.name, fmt::format("{} promised, {} late, {:.0f} min early on average",
                                          all.told, all.late, all.slack_s / 60 / all.told));
  }
}

// A server whose GPUs are full of tasks, each with a time limit of an hour.
class Full {
 public:
  explicit Full(const PolicyConfig& policy) : core_(policy) {
    core_.HandleAll(now_, {GpusDiscovered{{{.uuid = "GPU-0", .total_mib = 40'000}}}});
    core_.HandleAll(now_, {GpuSampled{GpuIndex{0}, {.taken = now_, .sm_active = 0.0}}});
  }
  TaskId Submit(TaskRequest request = {}) {
    const TaskId id{++last_};
    request.exclusive = request.gpus > 0;
    request.time_limit = 60 * kMinute;
    core_.HandleAll(now_, {TaskSubmitted{id, request}});
    core_.HandleAll(now_, {EstimateReady{id, Estimate{1'000, "given"}, KindId{1}, {}}});
    return id;
  }
  void Tell(Duration later, const Event& event) {
    now_ += later;
    core_.HandleAll(now_, {event});
  }
  Scheduler& core() { return core_; }
  Time now() const { return now_; }

 private:
  Scheduler core_;
  Time now_ = base::FromMs(1'000'000'000);
  std::uint64_t last_ = 0;
};

TEST(InLine, ListsOnlyTasksThatWaitForGpusInOrder) {
  Full server(ExpectingRules(QueueOrder::kFifo, 1));
  server.Submit();  // this task runs
  const TaskId second = server.Submit();
  TaskRequest held;
  held.held = true;
  server.Submit(held);
  const TaskId third = server.Submit();
  TaskRequest urgent;
  urgent.priority = 5;
  const TaskId first = server.Submit(urgent);
  const TasksInLine all = server.core().InLine(10);
  EXPECT_EQ(all.with_gpus, (std::vector{first, second, third}));
  EXPECT_TRUE(all.without_gpus.empty());
  EXPECT_EQ(server.core().InLine(2).with_gpus, (std::vector{first, second}));
}

TEST(ExpectedStarts, FollowTheProgressOfARunningTask) {
  Full server(ExpectingRules(QueueOrder::kFifo, 1));
  const TaskId running = server.Submit();
  const TaskId second = server.Submit();
  const TaskId third = server.Submit();
  server.Tell({}, TaskStarted{running, 1});
  const auto starts = [&] { return server.core().ExpectedStarts(server.now()); };
  EXPECT_EQ(starts().at(second).likely, server.now() + 60 * kMinute) << "by its limit";
  server.Tell(10 * kMinute, ProgressSeen{{{running, 20 * kMinute}}});
  EXPECT_EQ(starts().at(second).likely, server.now() + 20 * kMinute);
  EXPECT_EQ(starts().at(third).likely, server.now() + 50 * kMinute)
      << "predicted from the progress of its kind";
  server.Tell(5 * kMinute, WakeUp{});
  EXPECT_EQ(starts().at(second).likely, server.now() + 15 * kMinute);
  server.Tell({}, ProgressSeen{{{running, 5 * kMinute}}});
  EXPECT_EQ(starts().at(second).likely, server.now() + 5 * kMinute);
}

TEST(ExpectedStarts, ATaskThatIsNotSubmittedYetIsBehindTheQueue) {
  Full server(ExpectingRules(QueueOrder::kFifo, 1));
  server.Submit();  // this task runs
  const TaskId waiting = server.Submit();
  TaskRequest request;
  request.exclusive = true;
  request.time_limit = 60 * kMinute;
  const ExpectedStart its =
      server.core().ExpectedStartOf(request, Estimate{1'000, "given"}, server.now());
  EXPECT_GT(its.likely, server.core().ExpectedStarts(server.now()).at(waiting).likely);
}

TEST(ExpectedStarts, DoNotDependOnTheNumberRequested) {
  for (const QueueOrder order : {QueueOrder::kFifo, QueueOrder::kFair}) {
    Full server(ExpectingRules(order, 1));
    for (int i = 0; i < 6; ++i) server.Submit();
    const auto all = server.core().ExpectedStarts(server.now());
    const auto two = server.core().ExpectedStarts(server.now(), 2);
    EXPECT_EQ(all.size(), 5U);
    ASSERT_EQ(two.size(), 2U);
    for (const auto& [id, start] : two) EXPECT_EQ(start, all.at(id));
  }
}

TEST(ExpectedStarts, AreUnknownInALongQueueThatMayBeReordered) {
  for (const QueueOrder order : {QueueOrder::kFifo, QueueOrder::kFair}) {
    Full server(ExpectingRules(order, 1));
    for (std::size_t i = 0; i < kLongestTold + 2; ++i) server.Submit();
    const auto first = *server.core().ExpectedStarts(server.now(), 1).begin();
    EXPECT_EQ(first.second.latest.has_value(), order == QueueOrder::kFifo);
    EXPECT_TRUE(first.second.likely);
  }
}

}  // namespace
}  // namespace carma::core
