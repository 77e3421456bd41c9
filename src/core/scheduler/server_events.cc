#include "core/scheduler/server_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/scheduler/learning.h"
#include "core/scheduler/recovery.h"
#include "core/scheduler/task_life.h"
#include "core/values/pace.h"

namespace carma::core {
namespace {

// An activity above this cannot be explained by rounding in the driver.
constexpr double kMaxActivity = 1.05;

std::string SampleTrouble(const GpuInfo& info, const GpuSample& sample) {
  if (sample.used_mib < 0 || sample.used_mib > info.total_mib) {
    return fmt::format("its last sample reports {} MiB used of {} MiB", sample.used_mib,
                       info.total_mib);
  }
  for (const auto& [what, value] : {std::pair("an SM activity", sample.sm_active),
                                    std::pair("a utilisation", sample.utilization)}) {
    if (!value || (std::isfinite(*value) && *value >= 0 && *value <= kMaxActivity)) continue;
    return fmt::format("its last sample reports {} of {}", what, *value);
  }
  return "";
}

// Core usage is averaged over this time, because a task may briefly be busy loading data.
constexpr Duration kUsualCpusOver{60'000};

// Moves waiting tasks that can never start to Place::kUnfit, where they do not block their user's
// other tasks.
void SortOutUnfit(State& state) {
  for (auto& [id, task] : state.tasks) {
    if (task.state != TaskState::kQueued) continue;
    CutToGpus(state, task);
    NoteUnfit(state, task);
    state.unsorted.insert(id);
  }
}

// Number of CARMA tasks that are running on this GPU but were not placed there. They count as
// foreign.
int TasksFromElsewhere(const State& state, const GpuSampled& event) {
  const std::span<const Resident> residents = state.ledger.ResidentsOf(event.gpu);
  return static_cast<int>(std::ranges::count_if(event.sample.tasks_mib, [&](const auto& seen) {
    return std::ranges::find(residents, seen.first, &Resident::task) == residents.end();
  }));
}

}  // namespace

void State::On(const GpusDiscovered& event) {
  if (!gpus.all.empty()) return;  // sent only once; a new list needs a restart
  const std::vector<double> paces = PacesOf(event.gpus);
  for (const GpuInfo& info : event.gpus) {
    gpus.all.push_back({.info = info, .pace = paces[gpus.all.size()]});
    gpus.sizes_mib.push_back(info.UsableMib());
    gpus.largest_mib = std::max(gpus.largest_mib, info.UsableMib());
  }
  gpus.infos = event.gpus;
  gpus.links = GpuLinks(gpus.infos);
  ledger.Open(gpus.sizes_mib);
}

void State::On(const HostDiscovered& event) {
  if (event.host == machine.books.info()) return;
  machine.books.Open(event.host);
  SortOutUnfit(*this);
}

void State::On(const GpuSampled& event) {
  if (Number(event.gpu) >= gpus.all.size()) return;
  GpuState& gpu = gpus.all[Number(event.gpu)];
  if (gpu.sample && event.sample.taken < gpu.sample->taken) return;
  const int strangers = gpu.sample ? gpu.sample->foreign_processes : 0;
  gpu.sample = event.sample;
  gpu.sample->foreign_processes += TasksFromElsewhere(*this, event);
  if (strangers != gpu.sample->foreign_processes) {
    gpu.crowd_changed = now;
    LookAtResidents(*this, event.gpu);
  }
  gpu.sample_trouble = SampleTrouble(gpu.info, event.sample);
  if (!gpu.sample_trouble.empty()) return;  // its values are not recorded
  if (ledger.Observe(event.gpu, event.sample) && config.plateau_after) {
    const Time due = event.sample.taken + *config.plateau_after;
    next_plateau = std::min(next_plateau.value_or(due), due);
  }
  LearnActivity(*this, event.gpu);
  for (const Resident& resident : ledger.ResidentsOf(event.gpu)) {
    TaskRecord& task = tasks.at(resident.task);
    if (resident.observed_mib > task.peak_mib) {
      task.peak_mib = resident.observed_mib;
      // The peak is stored because the core needs it after a restart. Rises of less than 1 % do not
      // begin a new plateau and are not stored.
      if (resident.memory.since() == event.sample.taken) Keep(task);
    }
    const Lesson* lesson = lessons.Of(task);
    if (lesson != nullptr && lesson->enough_mib > 0 && resident.observed_mib > lesson->enough_mib)
      lessons.Enough(task, NeedAfterPlateau(resident.observed_mib));
    if (gpu.sample->foreign_processes > 0) EditLife(resident.task).shared = true;
  }
}

void State::On(const HostSampled& event) {
  machine.use = event;
  for (const auto& [id, cpus] : event.tasks_cpus) {
    const TaskRecord* task = Held(id);
    if (task == nullptr || !HoldsGpus(task->state) || task->request->gpus < 1) continue;
    Life& life = EditLife(id);
    if (!life.cpus) life.cpus_from = life.cpus_at = now;
    life.cpus = cpus;
    const Duration watched = now - life.cpus_from;
    if (now > life.cpus_at) {
      const double share = base::Seconds(now - std::exchange(life.cpus_at, now)) /
                           base::Seconds(std::min(watched, kUsualCpusOver));
      life.usual_cpus += (cpus - life.usual_cpus) * std::min(1.0, share);
    }
    if (watched >= kUsualCpusOver) lessons.Cpus(*task, life.usual_cpus / task->request->gpus);
  }
  CountIdleCpus(*this);
  if (passes.lacks_cores) passes.Forget();
}

void State::On(const ProgressSeen& event) {
  for (const auto& [id, left] : event.left) {
    const TaskRecord* task = Held(id);
    if (task == nullptr || task->state != TaskState::kRunning) continue;
    Life& life = EditLife(id);
    const double done_s = DoneS(*this, id);
    const double span_s = base::Seconds(now - task->attempt->launched.value_or(now));
    const double speed = span_s > 0 && !life.restored ? done_s / span_s : life.speed;
    life.alone_s = done_s + std::max(0.0, base::Seconds(left)) * speed;
    // A later attempt may have continued from a checkpoint, so only the first attempt is used.
    if (!life.restored && task->attempt->number == 1) lessons.Alone(*task, *life.alone_s);
  }
}

void State::On(const GpuHealthChanged& event) {
  if (Number(event.gpu) >= gpus.all.size()) return;
  GpuState& gpu = gpus.all[Number(event.gpu)];
  gpu.healthy = event.healthy && !event.lost;
  gpu.trouble = gpu.healthy ? "" : event.text;
  if (!event.lost) return;
  std::vector<TaskId> there;
  for (const Resident& resident : ledger.ResidentsOf(event.gpu)) there.push_back(resident.task);
  for (const TaskId id : there) {
    TaskRecord& task = tasks.at(id);
    if (task.state == TaskState::kStopping) continue;
    Stop(task, StopCause::kGpuLost,
         {ReasonCode::kNodeFail, fmt::format("GPU {} was lost: {}.", event.gpu, event.text)});
  }
}

void State::On(const DrainRequested& event) {
  if (Number(event.gpu) >= gpus.all.size()) return;
  GpuState& gpu = gpus.all[Number(event.gpu)];
  (event.by_rule ? gpu.drained_by_rule : gpu.drained_by_person) = event.why;
  if (!event.by_rule) gpu.empty_by = event.empty_by;
}

void State::On(const ResumeRequested& event) {
  if (Number(event.gpu) >= gpus.all.size()) return;
  GpuState& gpu = gpus.all[Number(event.gpu)];
  gpu.drained_by_rule.reset();
  if (event.by_rule) return;
  gpu.drained_by_person.reset();
  gpu.empty_by.reset();
}

void State::On(const ReservationsChanged& event) {
  reservations.Follow(event.periods);
}

void State::On(const PolicyChanged& event) {
  CARMA_CHECK(event.policy->pacing == config.pacing, "changing the pacing requires a new core");
  CARMA_CHECK(Shares(*event.policy) == Shares(config),
              "a running core cannot start or stop sharing GPUs");
  const PolicyConfig before = std::exchange(config, *event.policy);
  if (event.ended) limits.ForgetEnded();
  FollowEntitlements(*this);
  for (const Taken& taken : event.ended.value_or(std::vector<Taken>{})) limits.Past(taken, now);
  if (config.cpus_per_gpu != before.cpus_per_gpu ||
      config.host_memory_per_gpu_mib != before.host_memory_per_gpu_mib ||
      config.limits != before.limits || config.classes != before.classes)
    SortOutUnfit(*this);
  next_plateau = now;
  passes.Forget();
  passes.waiting_pays = false;
  preemptions.planned.reset();
  recovery_hold.Drop();  // its task may not start on these GPUs under the new rules
  UseMapper();
  for (std::uint32_t i = 0; i < gpus.all.size(); ++i) LookAtResidents(*this, GpuIndex{i});
  if (config.idle_action != IdleAction::kEnd) return;
  // Tasks are reported as idle only once, so the new rule must be applied here to tasks that were
  // reported earlier.
  for (auto& [id, task] : tasks) {
    if (task.state == TaskState::kRunning && task.attempt->idle_since) EndIdle(*this, task);
  }
}

void FollowEntitlements(State& state) {
  state.shares.Follow(state.config.fair);
  state.queue.UseClasses(state.config.classes);
  state.limits.Follow(state.config.limits, state.now);
  for (const auto& [id, task] : state.tasks) {
    state.limits.Join(task);
    if (HoldsGpus(task.state)) state.limits.Start(task);
  }
}

void State::On(const WakeUp&) {}

}  // namespace carma::core
