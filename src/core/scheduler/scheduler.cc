#include "core/scheduler/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/scheduler/books.h"
#include "core/scheduler/expecting.h"
#include "core/scheduler/explain.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/scheduler_state.h"
#include "core/scheduler/server_events.h"
#include "core/scheduler/task_life.h"
#include "core/scheduler/time_slices.h"
#include "core/scheduler/waiting.h"

namespace carma::core {

State::State(PolicyConfig policy) : config(std::move(policy)), shares(config.fair) {
  UseMapper();
  FollowEntitlements(*this);
  rules = MakeRules(*this);
}

// An unchanged mapper keeps its state, so that round robin does not start over. A mapper that
// chooses the task is recreated, because its only state is a copy of the configuration.
void State::UseMapper() {
  const MapperEntry* wanted = FindMapper(config.mapper);
  CARMA_CHECK(wanted != nullptr, "the policy was not validated: no such mapper");
  if (wanted == std::exchange(mapper_entry, wanted) && !wanted->chooses_task) return;
  mapper = wanted->make(config);
}

Scheduler::Scheduler(PolicyConfig config) : state_(std::make_unique<State>(std::move(config))) {}
Scheduler::~Scheduler() = default;

std::vector<Action> Scheduler::Handle(Time now, const Event& event) {
  return HandleAll(now, {event});
}

std::vector<Action> Scheduler::HandleAll(Time now, const std::vector<Event>& events) {
  State& state = *state_;
  CARMA_CHECK(now >= state.now, "time went back");
  state.now = now;
  if (events.size() > 1) state.out.actions.reserve(2 * events.size());
  state.rules->Begin();
  for (const Event& event : events)
    std::visit([&state](const auto& each) { state.On(each); }, event);
  state.limits.Advance(now);
  core::SettleReservations(state);
  // A restored task may have ended before its time limit, but the caller reports this only after
  // this step. Time limits are therefore not enforced in the step that restores tasks.
  const auto restored = [](const Event& event) {
    return std::holds_alternative<TaskRestored>(event);
  };
  if (std::ranges::none_of(events, restored)) {
    core::StopExpired(state);
    core::WarnExpiring(state);
  }
  core::SortWaiting(state);
  core::LearnPlateaus(state);
  // No task may overtake one that has no place in the queue yet, so no decisions are made until all
  // tasks are sorted.
  if (state.unsorted.empty()) {
    if (state.heads.short_of_host.task) core::NoteShortOfHost(state);
    state.rules->Decide();
    core::StartWithoutGpus(state);
    core::NoteShortOfHost(state);
  }
  core::TakeTurns(state);
  core::AskForWake(state);
  state.dependencies.Close();
  return std::exchange(state.out.actions, {});
}

std::optional<Reason> Scheduler::NeverFits(const TaskRequest& request,
                                           const std::optional<Estimate>& estimate) const {
  return core::NeverFits(*state_, request, estimate);
}

std::size_t Scheduler::AheadOf(const TaskRequest& request) const {
  const TaskRecord newcomer{.id = kNewcomer, .request = request, .submitted = state_->now};
  const LineKind kind = LineKindOf(request);
  LineUp line = core::Line(*state_, kind, core::NewcomerOf(*state_, newcomer));
  const bool blocked = state_->config.recovery_blocks && kind == LineKind::kWithGpus;
  std::size_t before = blocked ? state_->queue.Recovery().size() : 0;
  for (auto next = line.Pop(); next && next->task != kNewcomer; next = line.Pop()) ++before;
  return before;
}

const TaskRecord* Scheduler::Find(TaskId id) const {
  return state_->Find(id);
}

const TaskRecords& Scheduler::Tasks() const {
  return state_->tasks;
}

std::optional<Explanation> Scheduler::Explain(TaskId id, Time now) const {
  const TaskRecord* task = Find(id);
  if (task == nullptr) return std::nullopt;
  Explanation answer{.id = id, .state = task->state, .reason = core::ReasonOf(*state_, *task, now)};
  if (task->state != TaskState::kQueued) return answer;
  answer.ahead = core::AheadOf(*state_, *task);
  if (state_->machine.books.info() != HostInfo{})
    answer.host = core::HostVerdictOn(*state_, *task, now);
  if (task->request->gpus == 0) return answer;
  answer.taught_mib = core::TaughtMib(*state_, *task);
  for (const GpuView& view : core::Views(*state_, now)) {
    const std::optional<GpuSample>& sample = state_->gpus.all[Number(view.index)].sample;
    answer.gpus.push_back({view.index, core::VerdictOn(*state_, *task, view), view.claimed_mib,
                           view.promised_mib, sample ? sample->used_mib : 0});
  }
  return answer;
}

std::optional<Reason> Scheduler::BarredFor(const TaskRequest& request,
                                           const std::optional<Estimate>& estimate,
                                           Time now) const {
  const TaskRecord newcomer{.id = kNewcomer, .request = request, .submitted = state_->now};
  const Need need = NeedOfNew(request, estimate);
  return core::ReasonToBar(*state_, newcomer, core::WantsOf(*state_, need), now);
}

std::optional<LimitHit> Scheduler::LimitOnSubmission(const TaskRequest& request, std::size_t more,
                                                     const TaskRequest* counted,
                                                     std::span<const AlikeTasks> beside) const {
  return state_->limits.AgainstQueueing(request, HostNeedOf(state_->config, request), more, counted,
                                        beside);
}

HostVerdict Scheduler::HostFor(const TaskRequest& request, Time now) const {
  return core::HostVerdictOn(*state_, {.request = request}, now);
}

std::optional<Duration> Scheduler::LongestAllowed(const TaskRequest& request) const {
  return state_->limits.LongestFor(request);
}

Reason Scheduler::ReasonFor(TaskId id, Time now) const {
  const TaskRecord* task = Find(id);
  return task == nullptr ? Reason{} : core::ReasonOf(*state_, *task, now);
}

std::string Scheduler::MachineTrouble() const {
  return state_->launch_trouble.Text();
}

TasksInLine Scheduler::InLine(std::size_t most) const {
  return {core::InLine(*state_, LineKind::kWithGpus, most),
          core::InLine(*state_, LineKind::kWithoutGpus, most)};
}

std::map<TaskId, ExpectedStart> Scheduler::ExpectedStarts(Time now, std::size_t most) const {
  return core::ExpectedStarts(*state_, now, nullptr, most);
}

ExpectedStart Scheduler::ExpectedStartOf(const TaskRequest& request,
                                         const std::optional<Estimate>& estimate, Time now) const {
  if (request.gpus == 0) return {};
  const TaskRecord newcomer{
      .id = kNewcomer, .request = request, .estimate = estimate, .submitted = now};
  const std::map<TaskId, ExpectedStart> starts =
      core::ExpectedStarts(*state_, now, &newcomer, kLongestTold);
  const auto at = starts.find(kNewcomer);
  return at == starts.end() ? ExpectedStart{} : at->second;
}

Need Scheduler::NeedOfNew(const TaskRequest& request,
                          const std::optional<Estimate>& estimate) const {
  Need need = NeedOf(state_->config, request, estimate);
  core::AddWhere(*state_, request, ChoiceOf(request, state_->gpus.infos), need);
  return need;
}

std::vector<ReservationStatus> Scheduler::ReservationsNow() const {
  std::vector<ReservationStatus> standings = state_->reservations.Standings();
  for (ReservationStatus& each : standings) {
    const Reservation* booking = state_->reservations.Find(each.id);
    for (const GpuIndex gpu : each.gpus) {
      for (const TaskId task : core::ConflictingTasks(*state_, *booking, gpu)) {
        const TaskRecord& record = state_->tasks.at(task);
        const std::optional<Duration> limit = record.request->time_limit;
        // A task does not conflict if its time limit ends it before the reservation begins.
        const bool limited = limit && state_->now < each.from;
        if (limited && record.attempt->started.value_or(state_->now) + *limit <= each.from)
          continue;
        if (std::ranges::find(each.others, task) == each.others.end()) each.others.push_back(task);
      }
    }
  }
  return standings;
}

std::vector<AttemptEnded> Scheduler::Attempts(Time now) const {
  std::vector<AttemptEnded> attempts;
  for (const auto& [id, task] : state_->tasks) {
    if (HoldsGpus(task.state)) attempts.push_back(core::AttemptOf(*state_, task, now));
  }
  return attempts;
}

std::vector<GpuView> Scheduler::Gpus(Time now) const {
  return core::Views(*state_, now);
}

const HostBooks& Scheduler::Host() const {
  return state_->machine.books;
}

std::vector<Promise> Scheduler::PromisesOn(GpuIndex gpu, Time now) const {
  const Time plateau_from = core::PlateauFrom(*state_, now);
  std::vector<Promise> promises;
  for (const Resident& each : state_->ledger.ResidentsOf(gpu)) {
    promises.push_back({each.task, each.claim_mib, PromiseOf(each, plateau_from), each.observed_mib,
                        each.memory.StandsSince(plateau_from)});
  }
  return promises;
}

const std::vector<GpuInfo>& Scheduler::GpuInfos() const {
  return state_->gpus.infos;
}

const PolicyConfig& Scheduler::config() const {
  return state_->config;
}

std::optional<std::string> Scheduler::CheckBooks() const {
  return core::CheckBooks(*state_);
}

}  // namespace carma::core
