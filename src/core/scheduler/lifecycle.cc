// Events and the steps of a task's life.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "core/scheduler/scheduler_state.h"
#include "core/values/pace.h"

namespace carma::core {
namespace {

// A short wait after the machine could not fork or a neighbour broke the MPS server.
constexpr Duration kRetryBackoff{5'000};
constexpr int kMaxBackoffDoublings = 6;
// A larger activity is not just a rounding error of the driver.
constexpr double kMaxActivity = 1.05;

Duration RetryBackoff(int failures) {
  return kRetryBackoff * (1 << std::clamp(failures - 1, 0, kMaxBackoffDoublings));
}

std::string SampleTrouble(const GpuInfo& info, const GpuSample& sample) {
  if (sample.used_mib < 0 || sample.used_mib > info.total_mib) {
    return fmt::format("its last sample says {} MiB used of {} MiB", sample.used_mib,
                       info.total_mib);
  }
  for (const auto& [what, value] : {std::pair("an SM activity", sample.sm_active),
                                    std::pair("a utilisation", sample.utilization)}) {
    if (!value || (std::isfinite(*value) && *value >= 0 && *value <= kMaxActivity)) continue;
    return fmt::format("its last sample says {} of {}", what, *value);
  }
  return "";
}

std::string Told(std::string_view what, const std::string& detail) {
  return fmt::format("{}{}{}.", what, detail.empty() ? "" : ": ", detail);
}

// The detail is complete ("exit code 1: ValueError: …"); without one it is made here.
Reason FailureReason(const ExitInfo& exit, const HostShare& host) {
  if (exit.kind == ExitKind::kGpuFault)
    return {ReasonCode::kGpuFault, Told("Failed by a fault on its GPU", exit.detail)};
  const ReasonCode code = exit.signal != 0 ? ReasonCode::kSignal : ReasonCode::kNonZeroExit;
  if (exit.kind == ExitKind::kHostMemory) {
    const std::string limit =
        fmt::format(" (it was promised {})", base::FormatMib(host.memory_mib));
    return {ReasonCode::kHostMemory,
            Told(fmt::format("Killed because the machine's own memory ran out{}",
                             host.memory_mib > 0 ? limit : ""),
                 exit.detail)};
  }
  if (!exit.detail.empty()) return {code, Told("Failed", exit.detail)};
  if (exit.signal != 0) return {code, fmt::format("Ended by signal {}.", exit.signal)};
  return {code, fmt::format("Exited with status {}.", exit.code)};
}

// The edited request: which fields change and which stay.
TaskRequest Edited(const TaskRecord& task, TaskRequest wanted) {
  const TaskRequest& before = task.request;
  TaskRequest after = HoldsGpus(task.state) ? before : wanted;
  after.uid = before.uid;
  after.user = before.user;
  after.array = before.array;
  after.array_limit = before.array_limit;
  after.held = before.held;
  after.priority = wanted.priority;
  after.qos = std::move(wanted.qos);
  after.time_limit = wanted.time_limit;
  after.signal_before = wanted.signal_before;
  return after;
}

}  // namespace

TaskRecord* Scheduler::State::Held(TaskId id) {
  const auto at = tasks.find(id);
  return at == tasks.end() ? nullptr : &at->second;
}

TaskRecord* Scheduler::State::InAttempt(TaskId id, int attempt) {
  TaskRecord* task = Held(id);
  const bool current =
      task != nullptr && task->attempt->number == attempt && HoldsGpus(task->state);
  return current ? task : nullptr;
}

const Life& Scheduler::State::LifeOf(TaskId id) const {
  static const Life fresh;
  const auto at = lives.find(Number(id));
  return at == lives.end() ? fresh : at->second;
}

void Scheduler::State::NoteUnfit(const TaskRecord& task) {
  const bool unfit = NeverFits(task.request, task.estimate).has_value();
  if (unfit != LifeOf(task.id).unfit) EditLife(task.id).unfit = unfit;
}

void Scheduler::State::NoteChoice(const TaskRecord& task) {
  std::shared_ptr<const GpuChoice> choice = ChoiceOf(task.request, gpu_infos);
  if (choice != LifeOf(task.id).choice) EditLife(task.id).choice = std::move(choice);
}

void Scheduler::State::Move(TaskRecord& task, TaskState to) {
  CARMA_CHECK(IsLegalStep(task.state, to),
              fmt::format("task {}: illegal step {} -> {} in its attempt {}", task.id,
                          TaskStateName(task.state), TaskStateName(to), task.attempt->number));
  task.state = to;
  moved.insert(task.id);
}

void Scheduler::State::Keep(const TaskRecord& task) {
  actions.emplace_back(TaskChanged{task, moved.erase(task.id) > 0});
}

void Scheduler::State::Finish(TaskRecord& task, TaskState state, Reason reason) {
  const TaskId id = task.id;
  Move(task, state);
  task.reason = std::move(reason);
  Attempt& attempt = task.attempt.Edit();
  attempt.stopping = StopCause::kNone;
  attempt.idle_since.reset();
  task.ended = now;
  Keep(task);
  LeaveGpus(task);
  LeaveArray(task);
  lessons.Leave(task);
  limits.Leave(task);
  queue.Remove(id);
  unsorted.erase(id);
  lives.erase(Number(id));
  tasks.erase(id);
  for (const TaskId each : dependencies.End(id, state, tasks)) {
    if (tasks.at(each).state == TaskState::kQueued) unsorted.insert(each);
  }
}

void Scheduler::State::Enqueue(TaskRecord& task, QueueKind kind, Reason reason) {
  if (task.state != TaskState::kQueued) Move(task, TaskState::kQueued);
  task.queue = kind;
  task.reason = std::move(reason);
  task.attempt = task.attempt->Past();
  task.queued_since = now;
  Keep(task);
  unsorted.insert(task.id);
}

void Scheduler::State::Stop(TaskRecord& task, StopCause cause, Reason reason) {
  Move(task, TaskState::kStopping);
  deadlines.Forget(task);
  leaving.erase(task.id);
  task.attempt.Edit().stopping = cause;
  task.reason = std::move(reason);
  Keep(task);
  actions.emplace_back(StopTask{task.id, task.attempt->number, cause});
}

void Scheduler::State::StopExpired() {
  while (const std::optional<TaskId> expired = deadlines.Expired(now)) {
    TaskRecord& task = tasks.at(*expired);
    Stop(task, StopCause::kTimeLimit,
         {ReasonCode::kTimeLimit, fmt::format("Ran longer than its time limit of {}.",
                                              base::FormatSpan(*task.request->time_limit))});
  }
}

void Scheduler::State::WarnExpiring() {
  while (const std::optional<TaskId> due = deadlines.ToWarn(now)) {
    TaskRecord& task = tasks.at(*due);
    deadlines.Forget(task);
    task.attempt.Edit().warned = now;
    deadlines.Watch(task);
    Keep(task);
    actions.emplace_back(WarnTask{task.id, task.attempt->number});
  }
}

void Scheduler::State::LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit) {
  if (HoldsGpus(task.state)) GiveBack(task, exit);
  const std::span<const GpuIndex> held = ledger.GpusOf(task.id);
  const std::vector<GpuIndex> left(held.begin(), held.end());
  ledger.Release(task.id);
  host.Release(task.id);
  for (const GpuIndex gpu : left) {
    gpus[Number(gpu)].crowd_changed = now;
    LookAtResidents(gpu);
  }
  deadlines.Forget(task);
  leaving.erase(task.id);
}

AttemptEnded Scheduler::State::AttemptOf(const TaskRecord& task, Time to) const {
  const Attempt& attempt = task.attempt;
  const Time from = attempt.launched.value_or(to);
  AttemptEnded ended{.id = task.id,
                     .attempt = attempt.number,
                     .taken = {.uid = task.request->uid,
                               .user = UserOf(task.request),
                               .account = task.request->account.value_or(""),
                               .qos = QosOf(task.request),
                               .gpus = task.request->gpus,
                               .rate = RateNow(task),
                               .from = from,
                               .to = to},
                     .started = attempt.started,
                     .waited = from - (attempt.number > 1 ? task.queued_since : task.submitted),
                     .peak_mib = task.peak_mib};
  for (const Placement& each : attempt.placement) ended.gpus.push_back(each.gpu);
  if (!attempt.placement.empty()) ended.promised_mib = attempt.placement.front().claim_mib;
  return ended;
}

// All cores, or all memory, of the machine count as one whole GPU.
double Scheduler::State::RateNow(const TaskRecord& task) const {
  const HostShare& share = task.attempt->host;
  if (task.request->gpus == 0) return host.PartOf(share.cpus, share.memory_mib);
  return RateOf(task, gpu_sizes_mib, KeepsGpusAlone(task));
}

// The attempt's usage is reported once, while its placement is known.
void Scheduler::State::GiveBack(const TaskRecord& task, std::optional<ExitKind> exit) {
  AttemptEnded ended = AttemptOf(task, now);
  ended.exit = exit;
  shares.Release(task.id, now);
  limits.End(task);
  limits.Past(ended.taken, now);
  actions.emplace_back(std::move(ended));
}

bool Scheduler::State::KeepsGpusAlone(const TaskRecord& task) const {
  return task.request->exclusive || !mapper_entry->shares;
}

void Scheduler::State::TakeGpus(const TaskRecord& task, std::int64_t known_mib) {
  Life& life = EditLife(task.id);
  life.shared = false;
  life.done_s = 0;
  life.done_at = now;
  life.activity_s = 0;
  life.active_from.reset();
  host.Take(task.id, task.attempt->host);
  shares.Take(task, RateNow(task), task.attempt->launched.value_or(now), now);
  limits.Start(task);
  for (const Placement& placement : task.attempt->placement) {
    if (Number(placement.gpu) >= gpus.size()) continue;  // that GPU is gone since the restart
    for (const Resident& neighbour : ledger.ResidentsOf(placement.gpu)) {
      EditLife(neighbour.task).shared = true;
      life.shared = true;
    }
    const GpuState& gpu = gpus[Number(placement.gpu)];
    if (gpu.sample && gpu.sample->foreign_processes > 0) life.shared = true;
    ledger.Claim(placement.gpu, {.task = task.id,
                                 .claim_mib = placement.claim_mib,
                                 .exclusive = task.request->exclusive,
                                 .sm_share = task.request->sm_share.value_or(0),
                                 .launched = task.attempt->launched.value_or(now),
                                 .memory = Plateau(known_mib)});
    gpus[Number(placement.gpu)].crowd_changed = now;
    LookAtResidents(placement.gpu);
  }
}

void Scheduler::State::Restart(TaskRecord& task, Reason reason) {
  task = AsSubmitted(std::move(task));
  Enqueue(task, QueueKind::kMain, std::move(reason));
}

void Scheduler::State::EndStopped(TaskRecord& task) {
  Reason reason = task.reason;
  switch (task.attempt->stopping) {
    case StopCause::kTimeLimit:
      return Finish(task, TaskState::kTimedOut, std::move(reason));
    case StopCause::kRequeue:
      return Restart(task, std::move(reason));
    case StopCause::kTimeSlot:
    case StopCause::kPreempted:
    case StopCause::kDrained:
      return EndAsked(task, std::move(reason));
    case StopCause::kGpuLost:
      return RequeueLost(task, std::move(reason));
    case StopCause::kNone:
    case StopCause::kCancel:
    case StopCause::kIdle:
      return Finish(task, TaskState::kCancelled, std::move(reason));
  }
}

void Scheduler::State::RequeueLost(TaskRecord& task, Reason reason) {
  ++task.node_failures;
  if (!task.request->requeue || task.node_failures > config.max_node_failures) {
    return Finish(task, TaskState::kLost, std::move(reason));
  }
  Enqueue(task, task.queue, std::move(reason));
}

void Scheduler::State::RequeueVictim(TaskRecord& task) {
  const std::string why = "Ended by a fault of a neighbour or of the MPS server";
  // It must not be started again: for example, the server cannot start a lease's process.
  if (!task.request->requeue && task.request->max_recoveries == 0)
    return Finish(task, TaskState::kFailed, {ReasonCode::kVictim, why + "."});
  if (++task.victim_restarts > config.max_victim_restarts) {
    return Finish(task, TaskState::kFailed,
                  {ReasonCode::kVictim,
                   fmt::format("{} {} time{}, no restart is left.", why, task.victim_restarts,
                               task.victim_restarts == 1 ? "" : "s")});
  }
  task.not_before = now + kRetryBackoff;
  Enqueue(task, task.queue, {ReasonCode::kVictim, why + "; starts again."});
}

// Their failures were the machine's fault.
void Scheduler::State::RefundRetries(const std::map<TaskId, int>& innocent) {
  for (const auto& [id, failures] : innocent) {
    TaskRecord* task = Held(id);
    if (task == nullptr || failures == 0) continue;
    task->launch_failures = std::max(0, task->launch_failures - failures);
    task->not_before.reset();
    Keep(*task);
    if (task->state == TaskState::kQueued) unsorted.insert(id);
  }
}

void Scheduler::State::On(const GpusDiscovered& event) {
  if (!gpus.empty()) return;  // told once; another list needs a restart
  const std::vector<double> paces = PacesOf(event.gpus);
  for (const GpuInfo& info : event.gpus) {
    gpus.push_back({.info = info, .pace = paces[gpus.size()]});
    gpu_sizes_mib.push_back(info.UsableMib());
  }
  gpu_infos = event.gpus;
  links = GpuLinks(gpu_infos);
  ledger.Open(gpu_sizes_mib);
}

void Scheduler::State::On(const HostDiscovered& event) {
  if (event.host == host.info()) return;
  host.Open(event.host);
  SortOutUnfit();
}

void Scheduler::State::SortOutUnfit() {
  for (const auto& [id, task] : tasks) {
    if (task.state != TaskState::kQueued) continue;
    NoteUnfit(task);
    unsorted.insert(id);
  }
}

void Scheduler::State::On(const TaskSubmitted& event) {
  const auto [at, added] = tasks.try_emplace(event.id);
  if (!added) return;
  TaskRecord& task = at->second;
  task.id = event.id;
  task.request = event.request;
  NoteChoice(task);
  task.held = task.request->held;
  task.submitted = now;
  dependencies.Arrive(task.id);
  limits.Join(task);
  Move(task, TaskState::kEstimating);
  AskEstimate(task);
}

// A task without GPUs needs no estimate.
void Scheduler::State::AskEstimate(TaskRecord& task) {
  Keep(task);
  if (task.request->gpus > 0) {
    actions.emplace_back(RequestEstimate{task.id});
    return;
  }
  if (std::optional<Reason> never = NeverFits(task.request, {}))
    return Finish(task, TaskState::kRejected, *std::move(never));
  Enqueue(task, QueueKind::kMain, task.reason);
}

void Scheduler::State::On(const TaskRestored& event) {
  if (IsFinal(event.record.state)) return;
  const auto [at, added] = tasks.try_emplace(event.record.id, event.record);
  if (!added) return;
  TaskRecord& task = at->second;
  NoteChoice(task);
  dependencies.Arrive(task.id);
  limits.Join(task);
  EditLife(task.id).restored = true;
  lessons.Join(task);
  if (task.ooms > 0 && task.retry_free_mib) lessons.AtLeast(task, *task.retry_free_mib);
  if (task.state == TaskState::kSubmitted) Move(task, TaskState::kEstimating);
  if (task.state == TaskState::kEstimating) return AskEstimate(task);
  if (task.state == TaskState::kQueued) {
    NoteUnfit(task);
    unsorted.insert(task.id);
  } else {
    TakeGpus(task, task.peak_mib);
    arrays.Admit(task);
    EditLife(task.id).shared = true;  // whom it met in the earlier life is not known
  }
  if (task.state == TaskState::kRunning) deadlines.Watch(task);
  if (task.state == TaskState::kRunning && task.attempt->leaves_by) {
    leaving.insert(task.id);
    actions.emplace_back(AskToSave{task.id, task.attempt->number});
  }
  if (task.state == TaskState::kStopping) {
    actions.emplace_back(StopTask{task.id, task.attempt->number, task.attempt->stopping});
  }
}

void Scheduler::State::On(const AttemptRestored& event) {
  shares.Past(event.taken, now);
  limits.Past(event.taken, now);
}

void Scheduler::State::On(const EstimateReady& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->state != TaskState::kEstimating) return;
  task->estimate = event.estimate;
  CutToGpus(*task);
  if (!task->estimate.ShareWith(last_estimate)) last_estimate = task->estimate;
  lessons.Leave(*task);
  task->kind = event.kind;
  task->profile = event.profile;
  lessons.Join(*task);
  if (std::optional<Reason> never = NeverFits(task->request, task->estimate)) {
    return Finish(*task, TaskState::kRejected, *std::move(never));
  }
  Enqueue(*task, QueueKind::kMain, task->reason);  // a person may have sent it back
}

// A prediction may be wrong and must not refuse a task: it asks for no more than the smallest of
// its N largest possible GPUs has.
void Scheduler::State::CutToGpus(TaskRecord& task) const {
  if (!task.estimate || !task.estimate->predicted_mib) return;
  const std::int64_t most_mib = MostFor(task.request);
  if (most_mib == 0 || task.estimate->peak_mib <= most_mib) return;
  Estimate cut = *task.estimate;
  cut.peak_mib = most_mib;
  cut.predicted_mib = std::min(*cut.predicted_mib, most_mib);
  task.estimate = std::optional<Estimate>(std::move(cut));
}

// Tasks that were not given this GPU are foreign on it.
int Scheduler::State::TasksFromElsewhere(const GpuSampled& event) const {
  const std::span<const Resident> residents = ledger.ResidentsOf(event.gpu);
  return static_cast<int>(std::ranges::count_if(event.sample.tasks_mib, [&](const auto& seen) {
    return std::ranges::find(residents, seen.first, &Resident::task) == residents.end();
  }));
}

void Scheduler::State::On(const GpuSampled& event) {
  if (Number(event.gpu) >= gpus.size()) return;
  GpuState& gpu = gpus[Number(event.gpu)];
  if (gpu.sample && event.sample.taken < gpu.sample->taken) return;
  const int strangers = gpu.sample ? gpu.sample->foreign_processes : 0;
  gpu.sample = event.sample;
  gpu.sample->foreign_processes += TasksFromElsewhere(event);
  if (strangers != gpu.sample->foreign_processes) {
    gpu.crowd_changed = now;
    LookAtResidents(event.gpu);
  }
  gpu.sample_trouble = SampleTrouble(gpu.info, event.sample);
  if (!gpu.sample_trouble.empty()) return;  // its numbers do not reach the books
  if (ledger.Observe(event.gpu, event.sample) && config.plateau_after) {
    const Time due = event.sample.taken + *config.plateau_after;
    next_plateau = std::min(next_plateau.value_or(due), due);
  }
  LearnActivity(event.gpu);
  for (const Resident& resident : ledger.ResidentsOf(event.gpu)) {
    TaskRecord& task = tasks.at(resident.task);
    task.peak_mib = std::max(task.peak_mib, resident.observed_mib);
    if (gpu.sample->foreign_processes > 0) EditLife(resident.task).shared = true;
  }
}

void Scheduler::State::On(const HostSampled& event) {
  host_use = event;
  for (const auto& [id, cpus] : event.tasks_cpus) {
    const TaskRecord* task = Held(id);
    if (task == nullptr || !HoldsGpus(task->state) || task->request->gpus < 1) continue;
    EditLife(id).cpus = cpus;
    lessons.Cpus(*task, cpus / task->request->gpus);
  }
  CountIdleCpus();
  // Busy cores can only have kept tasks waiting if few were idle. Thousands may wait, and the use
  // changes a little with every reading.
  if (no_start && no_start->idle_cpus && *no_start->idle_cpus < event.cpus / 2 &&
      *idle_cpus >= *no_start->idle_cpus + 1) {
    no_start.reset();
    refused.Clear();
    unplaceable.Clear();
  }
}

void Scheduler::State::On(const GpuHealthChanged& event) {
  if (Number(event.gpu) >= gpus.size()) return;
  GpuState& gpu = gpus[Number(event.gpu)];
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

void Scheduler::State::On(const TaskStarted& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  if (task->attempt->started) return;  // told again after a restart
  task->attempt.Edit().started = now;
  task->launch_failures = 0;
  launch_trouble.Works(task->attempt->launched.value_or(now));
  if (task->state == TaskState::kLaunching) {
    Move(*task, TaskState::kRunning);
    task->reason = {};
    deadlines.Watch(*task);
  }
  Keep(*task);
}

void Scheduler::State::On(const SharingChosen& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  task->attempt.Edit().sharing = event.sharing;
  Keep(*task);
}

void Scheduler::State::On(const TaskIdle& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr || task->state != TaskState::kRunning) return;
  const bool ends = event.since && config.idle_action == IdleAction::kEnd;
  // If reported again, it is still ended: the rule may have been different before a restart.
  if (task->attempt->idle_since == event.since && !ends) return;
  task->attempt.Edit().idle_since = event.since;
  if (!ends) return Keep(*task);
  EndIdle(*task);
}

void Scheduler::State::EndIdle(TaskRecord& task) {
  Stop(task, StopCause::kIdle,
       {ReasonCode::kIdleHolder, fmt::format("Held GPUs without using them for {}.",
                                             base::FormatSpan(now - *task.attempt->idle_since))});
}

void Scheduler::State::On(const LaunchFailed& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  LeaveGpus(*task);
  if (task->state == TaskState::kStopping) return EndStopped(*task);
  if (event.interrupted) {
    // With a text it is the reason why a task that ended at once, not by its own fault, is retried.
    const std::string why = event.text.empty() ? "The daemon ended before it was started."
                                               : Told("Its GPU could not be used", event.text);
    return Enqueue(*task, task->queue, {ReasonCode::kLaunchFailed, why});
  }
  if (event.not_taken) {
    ++task->launch_failures;
    task->not_before = now + RetryBackoff(task->launch_failures);
    return Enqueue(*task, task->queue,
                   {ReasonCode::kLaunchFailed, fmt::format("Waits again: {}.", event.text)});
  }
  Reason reason{ReasonCode::kLaunchFailed, fmt::format("Could not be started: {}.", event.text)};
  if (event.retryable) {
    const std::map<TaskId, int> innocent =
        launch_trouble.Failed(now, *task, event.text, event.exhausted);
    RefundRetries(innocent);
    if (launch_trouble.on()) return Enqueue(*task, task->queue, std::move(reason));
  }
  ++task->launch_failures;
  if (!event.retryable || task->launch_failures > config.max_launch_failures) {
    return Finish(*task, TaskState::kFailed, std::move(reason));
  }
  task->not_before = now + RetryBackoff(task->launch_failures);
  Enqueue(*task, task->queue, std::move(reason));
}

void Scheduler::State::On(const TaskExited& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  task->exit = event.exit;
  task->seen = SeenOf(*task);
  LeaveGpus(*task, event.exit.kind);
  if (task->state == TaskState::kStopping) return EndStopped(*task);
  if (GoesOnLater(*task)) return EndSaved(*task);
  switch (event.exit.kind) {
    case ExitKind::kSuccess:
      return Finish(*task, TaskState::kSucceeded, {});
    case ExitKind::kOutOfMemory:
      if (task->request->gpus == 0) break;  // it has no GPU that could be too small
      return EndOutOfMemory(*task, event.tried_mib);
    case ExitKind::kVictim:
      return RequeueVictim(*task);
    case ExitKind::kLost:
      return RequeueLost(*task, {ReasonCode::kNodeFail, "Its process vanished without a report."});
    case ExitKind::kDeviceFault:
      return RequeueLost(*task, {ReasonCode::kNodeFail, Told("Its GPU failed", event.exit.detail)});
    case ExitKind::kGpuFault:
    case ExitKind::kFailed:
    case ExitKind::kHostMemory:
      break;
  }
  EndFailed(*task, FailureReason(event.exit, task->attempt->host));
}

void Scheduler::State::On(const CancelRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  Reason reason{ReasonCode::kCancelledByUser, fmt::format("Cancelled by {}.", event.who)};
  if (!HoldsGpus(task->state)) return Finish(*task, TaskState::kCancelled, std::move(reason));
  if (task->state != TaskState::kStopping) {
    return Stop(*task, StopCause::kCancel, std::move(reason));
  }
  if (task->attempt->stopping == StopCause::kCancel ||
      task->attempt->stopping == StopCause::kTimeLimit ||
      task->attempt->stopping == StopCause::kIdle)
    return;
  task->attempt.Edit().stopping =
      StopCause::kCancel;  // it is ending already; only what follows is another
  task->reason = std::move(reason);
  Keep(*task);
}

void Scheduler::State::On(const HoldRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->held || HoldsGpus(task->state)) return;
  task->held = true;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

void Scheduler::State::On(const ReleaseRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || !task->held) return;
  task->held = false;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

void Scheduler::State::On(const RequeueRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  Reason reason{ReasonCode::kRequeuedByUser, "Sent back to the queue by a person."};
  if (task->state == TaskState::kQueued) return Restart(*task, std::move(reason));
  if (task->state == TaskState::kStopping) {
    if (task->attempt->stopping != StopCause::kGpuLost) return;
    task->attempt.Edit().stopping = StopCause::kRequeue;
    task->reason = std::move(reason);
    return Keep(*task);
  }
  if (!HoldsGpus(task->state)) return;
  // Some programs requeue themselves when asked to checkpoint.
  if (task->attempt->leaves_by) return StopAsked(*task);
  Stop(*task, StopCause::kRequeue, std::move(reason));
}

void Scheduler::State::On(const PriorityChanged& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->request->priority == event.priority) return;
  task->request.Edit().priority = event.priority;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

// Stored as submitted first, because a restart then asks for the estimate.
void Scheduler::State::AskEstimateAgain(TaskRecord& task) {
  LeaveArray(task);
  queue.Remove(task.id);
  unsorted.erase(task.id);
  if (LifeOf(task.id).unfit) EditLife(task.id).unfit = false;
  task.estimate.reset();
  task.queue = QueueKind::kMain;
  task.retry_free_mib.reset();  // what its attempts taught was of another demand
  task.retry_on_idle_gpu = false;
  Move(task, TaskState::kSubmitted);
  Keep(task);
  Move(task, TaskState::kEstimating);
  AskEstimate(task);
}

void Scheduler::State::On(const TaskEdited& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  TaskRequest after = Edited(*task, event.request);
  if (after == *task->request) return;
  const bool running = HoldsGpus(task->state);
  const bool estimated_anew = after.memory_mib != task->request->memory_mib ||
                              after.gpus != task->request->gpus ||
                              !ChooseAlike(after, task->request);
  const bool waits_for_others = after.dependencies != task->request->dependencies;
  deadlines.Forget(*task);
  if (running) limits.End(*task);
  limits.Leave(*task);
  task->request = std::move(after);
  NoteChoice(*task);
  limits.Join(*task);
  if (running) limits.Start(*task);
  if (task->state == TaskState::kRunning) {
    // A task warned of a limit that has moved is warned again of the new one.
    const TaskRequest& request = task->request;
    if (request.time_limit && request.signal_before && task->attempt->started &&
        *task->attempt->started + *request.time_limit - *request.signal_before > now)
      task->attempt.Edit().warned.reset();
    deadlines.Watch(*task);
  }
  if (waits_for_others) dependencies.Arrive(task->id);
  if (task->state != TaskState::kQueued) return Keep(*task);
  if (estimated_anew) return AskEstimateAgain(*task);
  NoteUnfit(*task);
  Keep(*task);
  unsorted.insert(task->id);
}

void Scheduler::State::On(const DrainRequested& event) {
  if (Number(event.gpu) >= gpus.size()) return;
  GpuState& gpu = gpus[Number(event.gpu)];
  (event.by_rule ? gpu.drained_by_rule : gpu.drained_by_person) = event.why;
  if (!event.by_rule) gpu.empty_by = event.empty_by;
}

void Scheduler::State::On(const ResumeRequested& event) {
  if (Number(event.gpu) >= gpus.size()) return;
  GpuState& gpu = gpus[Number(event.gpu)];
  gpu.drained_by_rule.reset();
  if (event.by_rule) return;
  gpu.drained_by_person.reset();
  gpu.empty_by.reset();
}

void Scheduler::State::On(const ReservationsChanged& event) {
  reservations.Follow(event.periods);
}

void Scheduler::State::On(const PolicyChanged& event) {
  CARMA_CHECK(event.policy.pacing == config.pacing, "another system's rules need a new core");
  CARMA_CHECK(Shares(event.policy) == Shares(config),
              "tasks that run alone were promised to stay so");
  const PolicyConfig before = std::exchange(config, event.policy);
  FollowEntitlements();
  if (config.cpus_per_gpu != before.cpus_per_gpu ||
      config.host_memory_per_gpu_mib != before.host_memory_per_gpu_mib)
    SortOutUnfit();
  if (config.classes != before.classes) {
    for (const auto& [id, task] : tasks) {
      if (task.state == TaskState::kQueued) unsorted.insert(id);
    }
  }
  next_plateau = now;
  no_start.reset();
  no_start_without_gpus = {};
  waiting_pays = false;
  planned_preemptions.reset();
  UseMapper();
  for (std::uint32_t i = 0; i < gpus.size(); ++i) LookAtResidents(GpuIndex{i});
  if (config.idle_action != IdleAction::kEnd) return;
  // They were reported once, under the old rules.
  for (auto& [id, task] : tasks) {
    if (task.state == TaskState::kRunning && task.attempt->idle_since) EndIdle(task);
  }
}

void Scheduler::State::FollowEntitlements() {
  shares.Follow(config.fair);
  queue.UseClasses(config.classes);
  limits.Follow(config.limits, now);
  for (const auto& [id, task] : tasks) {
    limits.Join(task);
    if (HoldsGpus(task.state)) limits.Start(task);
  }
}

void Scheduler::State::On(const WakeUp&) {}

}  // namespace carma::core
