#include "core/scheduler/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

Scheduler::State::State(PolicyConfig policy) : config(std::move(policy)), shares(config.fair) {
  UseMapper();
  FollowEntitlements();
  rules = MakeRules(*this);
}

// A mapper that stays keeps its state, so that round robin does not restart.
void Scheduler::State::UseMapper() {
  const MapperEntry* wanted = FindMapper(config.mapper);
  CARMA_CHECK(wanted != nullptr, "the policy was not validated: no such mapper");
  if (wanted == std::exchange(mapper_entry, wanted)) return;
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
  state.rules->Begin();
  for (const Event& event : events) {
    std::visit([&state](const auto& each) { state.On(each); }, event);
  }
  state.limits.Advance(now);
  state.SettleReservations();
  state.StopExpired();
  state.WarnExpiring();
  state.SortWaiting();
  state.LearnPlateaus();
  // A task without a place in the queue yet must not be passed.
  if (state.unsorted.empty()) {
    state.rules->Decide();
    state.StartWithoutGpus();
    state.NoteShortOfHost();
  }
  state.TakeTurns();
  state.AskForWake();
  state.dependencies.Close();
  return std::exchange(state.actions, {});
}

std::optional<Reason> Scheduler::NeverFits(const TaskRequest& request,
                                           const std::optional<Estimate>& estimate) const {
  return state_->NeverFits(request, estimate);
}

std::size_t Scheduler::AheadOf(const TaskRequest& request) const {
  const TaskRecord newcomer{.id = kNewcomer, .request = request, .submitted = state_->now};
  const LineKind kind = LineKindOf(request);
  LineUp line = state_->Line(kind, state_->NewcomerOf(newcomer));
  const bool blocked = state_->config.recovery_blocks && kind == LineKind::kWithGpus;
  std::size_t before = blocked ? state_->queue.Recovery().size() : 0;
  for (auto next = line.Pop(); next && next->task != kNewcomer; next = line.Pop()) ++before;
  return before;
}

const TaskRecord* Scheduler::Find(TaskId id) const {
  const auto at = state_->tasks.find(id);
  return at == state_->tasks.end() ? nullptr : &at->second;
}

const TaskRecords& Scheduler::Tasks() const {
  return state_->tasks;
}

std::optional<Explanation> Scheduler::Explain(TaskId id, Time now) const {
  const TaskRecord* task = Find(id);
  if (task == nullptr) return std::nullopt;
  Explanation answer{.id = id, .state = task->state, .reason = state_->ReasonOf(*task, now)};
  if (task->state != TaskState::kQueued) return answer;
  answer.ahead = state_->AheadOf(*task);
  if (state_->host.info() != HostInfo{}) answer.host = state_->HostVerdictOn(*task, now);
  if (task->request->gpus == 0) return answer;
  answer.taught_mib = state_->TaughtMib(*task);
  for (const GpuView& view : state_->Views(now)) {
    const std::optional<GpuSample>& sample = state_->gpus[Number(view.index)].sample;
    answer.gpus.push_back({view.index, state_->VerdictOn(*task, view), view.claimed_mib,
                           view.promised_mib, sample ? sample->used_mib : 0});
  }
  return answer;
}

std::optional<LimitHit> Scheduler::LimitOnSubmission(const TaskRequest& request,
                                                     std::size_t more) const {
  return state_->limits.AgainstQueueing(request, HostNeedOf(state_->config, request), more);
}

HostVerdict Scheduler::HostFor(const TaskRequest& request, Time now) const {
  return state_->HostVerdictOn({.request = request}, now);
}

std::optional<Duration> Scheduler::LongestAllowed(const TaskRequest& request) const {
  return state_->limits.LongestFor(request);
}

Reason Scheduler::ReasonFor(TaskId id, Time now) const {
  const TaskRecord* task = Find(id);
  return task == nullptr ? Reason{} : state_->ReasonOf(*task, now);
}

std::string Scheduler::MachineTrouble() const {
  return state_->launch_trouble.Text();
}

TasksInLine Scheduler::InLine(std::size_t most) const {
  TasksInLine tasks{state_->InLine(LineKind::kWithGpus, most),
                    state_->InLine(LineKind::kWithoutGpus, most)};
  return tasks;
}

std::map<TaskId, ExpectedStart> Scheduler::ExpectedStarts(Time now, std::size_t most) const {
  return state_->ExpectedStarts(now, nullptr, most);
}

ExpectedStart Scheduler::ExpectedStartOf(const TaskRequest& request,
                                         const std::optional<Estimate>& estimate, Time now) const {
  if (request.gpus == 0) return {};
  const TaskRecord newcomer{.id = kNewcomer, .request = request, .estimate = estimate};
  const std::map<TaskId, ExpectedStart> starts =
      state_->ExpectedStarts(now, &newcomer, kLongestTold);
  const auto at = starts.find(kNewcomer);
  return at == starts.end() ? ExpectedStart{} : at->second;
}

Need Scheduler::NeedOfNew(const TaskRequest& request,
                          const std::optional<Estimate>& estimate) const {
  Need need = NeedOf(state_->config, request, estimate);
  state_->AddWhere(request, ChoiceOf(request, state_->gpu_infos), need);
  return need;
}

std::vector<ReservationStatus> Scheduler::ReservationsNow() const {
  std::vector<ReservationStatus> standings = state_->reservations.Standings();
  for (ReservationStatus& each : standings) {
    const Reservation* booking = state_->reservations.Find(each.id);
    for (const GpuIndex gpu : each.gpus) {
      for (const TaskId task : state_->ConflictingTasks(*booking, gpu)) {
        if (std::ranges::find(each.others, task) == each.others.end()) each.others.push_back(task);
      }
    }
  }
  return standings;
}

std::vector<AttemptEnded> Scheduler::Attempts(Time now) const {
  std::vector<AttemptEnded> attempts;
  for (const auto& [id, task] : state_->tasks) {
    if (HoldsGpus(task.state)) attempts.push_back(state_->AttemptOf(task, now));
  }
  return attempts;
}

std::vector<GpuView> Scheduler::Gpus(Time now) const {
  return state_->Views(now);
}

const HostBooks& Scheduler::Host() const {
  return state_->host;
}

std::vector<Promise> Scheduler::PromisesOn(GpuIndex gpu, Time now) const {
  const Time plateau_from = state_->PlateauFrom(now);
  std::vector<Promise> promises;
  for (const Resident& each : state_->ledger.ResidentsOf(gpu)) {
    promises.push_back({each.task, each.claim_mib, PromiseOf(each, plateau_from), each.observed_mib,
                        each.memory.StandsSince(plateau_from)});
  }
  return promises;
}

const std::vector<GpuInfo>& Scheduler::GpuInfos() const {
  return state_->gpu_infos;
}

const PolicyConfig& Scheduler::config() const {
  return state_->config;
}

std::optional<std::string> Scheduler::CheckBooks() const {
  if (auto wrong = state_->CheckClaims()) return wrong;
  if (auto wrong = state_->CheckHostShares()) return wrong;
  if (auto wrong = state_->CheckQueue()) return wrong;
  if (auto wrong = state_->CheckEntitlements()) return wrong;
  return state_->CheckTimers();
}

}  // namespace carma::core
