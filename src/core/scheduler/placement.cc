// Which GPUs a task gets.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// Maximum number of tasks per queue considered for a trial.
constexpr std::size_t kTrialLooks = 256;
// Maximum number of tasks considered for reserved GPUs in each decision.
constexpr std::size_t kBookedLooks = 1000;

std::string GpuList(const std::vector<Placement>& placement) {
  std::string text = placement.size() == 1 ? "GPU " : "GPUs ";
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}", placement[i].gpu);
  }
  return text;
}

}  // namespace

// An exclusive task that does not use its GPUs may have to share them.
bool Scheduler::State::IsExclusive(const Resident& resident) const {
  if (!resident.exclusive || config.idle_action != IdleAction::kShare) return resident.exclusive;
  return !tasks.at(resident.task).attempt->idle_since;
}

GpuView Scheduler::State::ViewOf(GpuIndex index, Time at) const {
  const GpuState& gpu = gpus[Number(index)];
  const Account account = ledger.AccountOf(index, PlateauFrom(at));
  const std::span<const Resident> residents = ledger.ResidentsOf(index);
  GpuView view{.index = index,
               .total_mib = gpu.info.UsableMib(),
               .free_mib = account.free_mib,
               .claimed_mib = account.claimed_mib,
               .promised_mib = account.promised_mib,
               .foreign_mib = account.foreign_mib,
               .residents = gpu.residents,
               .users = gpu.users,
               .delivered = gpu.delivered,
               .slowest = gpu.slowest,
               .tasks = static_cast<int>(residents.size()),
               .mig = gpu.info.mig,
               .compute = gpu.info.compute,
               .pace = gpu.pace,
               .drained = gpu.Drained() || closing,
               .drained_by_rule = !gpu.drained_by_person && !closing && gpu.drained_by_rule,
               .idle_cpus = config.pacing == Pacing::kImmediate ? idle_cpus : std::nullopt,
               .at = at,
               .booked = reservations.On(index)};
  // Every decision checks every GPU, so no texts are made for open ones.
  if (view.drained) {
    view.trouble = gpu.drained_by_person ? *gpu.drained_by_person
                   : closing             ? closing->why
                                         : *gpu.drained_by_rule;
  }
  for (const Resident& resident : residents) {
    view.exclusive_task |= IsExclusive(resident);
    view.sm_shares += resident.sm_share;
  }
  for (const Neighbour& each : gpu.residents) view.limited |= each.max_slowdown < kAnySlowdown;
  if (gpu.sample) {
    ShowActivity(index, at, view);
    view.utilization = gpu.sample->utilization;
    view.foreign_processes = gpu.sample->foreign_processes;
  }
  rules->Show(view);
  const Duration age = gpu.sample ? at - gpu.sample->taken : Duration{0};
  if (!gpu.healthy) {
    view.trouble = gpu.trouble;
  } else if (view.LeftAlone()) {
    view.healthy = true;
    return view;
  } else if (!gpu.sample) {
    view.trouble = "no sample has arrived yet";
  } else if (age > config.stale_after) {
    view.trouble = fmt::format("its last sample is {} s old, the limit is {} s", base::Seconds(age),
                               base::Seconds(config.stale_after));
  } else if (!gpu.sample_trouble.empty()) {
    view.trouble = gpu.sample_trouble;
  } else {
    view.healthy = true;
    view.reserved_for = recovery_hold.Keeps(index) ? recovery_hold.task() : KeptFor(gpu, at);
    return view;
  }
  view.healthy = false;
  // It also explains why the driver does not answer.
  if (view.drained_by_rule && gpu.drained_by_rule->starts_with(kDriverUpgrade))
    view.trouble = *gpu.drained_by_rule;
  return view;
}

std::vector<GpuView> Scheduler::State::Views(Time at) const {
  std::vector<GpuView> views;
  views.reserve(gpus.size());
  for (std::uint32_t i = 0; i < gpus.size(); ++i) views.push_back(ViewOf(GpuIndex{i}, at));
  return views;
}

std::optional<Reason> Scheduler::State::NeverTogether(int wanted) const {
  const auto instances =
      std::ranges::count_if(gpus, [](const GpuState& gpu) { return gpu.info.mig; });
  const auto whole = std::ssize(gpus) - instances;
  if (wanted < 2 || instances == 0 || wanted <= whole) return std::nullopt;
  return Reason{
      ReasonCode::kMigInstance,
      fmt::format("The task asks for {} GPUs that work together; this server has {} whole "
                  "GPU{} and {} MIG instance{}, which only work{} alone.",
                  wanted, whole, whole == 1 ? "" : "s", instances, instances == 1 ? "" : "s",
                  instances == 1 ? "s" : "")};
}

std::optional<Reason> Scheduler::State::NeverFits(const TaskRequest& request,
                                                  const std::optional<Estimate>& estimate) const {
  Need need = NeedOf(config, request, estimate);
  need.choice = ChoiceOf(request, gpu_infos);
  const HostInfo& machine = host.info();
  const auto cores = static_cast<int>(std::ssize(machine.cores));
  Verdict by_host = CheckHost(need.host, {machine.cpus, machine.cpus, cores, cores,
                                          machine.memory_mib, machine.memory_mib, std::nullopt});
  if (by_host.fit != Fit::kFits)
    return Reason{ReasonCode::kNeverFits, std::move(by_host.reason.text)};
  if (request.gpus == 0) return std::nullopt;
  if (std::optional<std::string> misnamed = MisnamedGpus(request, gpu_infos))
    return Reason{ReasonCode::kGpuChoice, *std::move(misnamed)};
  if (std::optional<Reason> divided = NeverTogether(request.gpus)) return divided;
  if (request.gpus < 0 || static_cast<std::size_t>(request.gpus) > gpus.size()) {
    return Reason{
        ReasonCode::kNeverFits,
        fmt::format("The task asks for {} GPUs, this server has {}.", request.gpus, gpus.size())};
  }
  int fitting = 0;
  int chosen = 0;
  std::vector<GpuLinks::Candidate> could;
  std::int64_t largest_mib = 0;
  GpuView idle;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (need.choice && !need.choice->Allows(GpuIndex{i})) continue;
    ++chosen;
    const std::int64_t usable_mib = gpus[i].info.UsableMib();
    largest_mib = std::max(largest_mib, usable_mib);
    idle.index = GpuIndex{i};
    idle.total_mib = usable_mib;
    idle.free_mib = usable_mib;
    idle.mig = gpus[i].info.mig;
    if (FitOf(config, need, idle) == Fit::kNever) continue;
    ++fitting;
    if (need.linked) could.push_back({GpuIndex{i}, 0});
  }
  if (fitting >= request.gpus) {
    if (!need.linked || !links.ChooseFor(need, std::move(could)).empty()) return std::nullopt;
    return Reason{ReasonCode::kNotLinked,
                  fmt::format("The task wants {} GPUs that are connected with each other (NVLink); "
                              "of those that it may have no {} are.",
                              request.gpus, request.gpus)};
  }
  if (chosen < request.gpus) {
    return Reason{ReasonCode::kGpuChoice,
                  fmt::format("The task wants {} GPU{}, and of this server's {} {} of the kind "
                              "that it asks for.",
                              request.gpus, request.gpus == 1 ? "" : "s", gpus.size(),
                              chosen == 0   ? "none is"
                              : chosen == 1 ? "1 is"
                                            : fmt::format("{} are", chosen))};
  }
  const std::string needs = base::FormatMib(need.memory_mib.value_or(0));
  const std::string largest = base::FormatMib(largest_mib);
  if (fitting == 0) {
    return Reason{ReasonCode::kNeverFits,
                  fmt::format("{} does not fit on any GPU that the task may use; the largest has "
                              "{}.",
                              needs, largest)};
  }
  return Reason{ReasonCode::kNeverFits,
                fmt::format("{} fits on {} of {} GPUs, the task needs {}; the largest has {}.",
                            needs, fitting, chosen, request.gpus, largest)};
}

std::int64_t Scheduler::State::ClaimOf(const TaskRecord& task, GpuIndex gpu) const {
  const Need need = NeedNow(task);
  std::int64_t claim_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
  if (task.ooms > 0) claim_mib = std::max(claim_mib, task.peak_mib);
  return std::min(claim_mib, gpus[Number(gpu)].info.UsableMib());
}

std::int64_t Scheduler::State::BoundOf(const TaskRecord& task) const {
  if (task.attempt->placement.empty()) return 0;
  const Placement& at = task.attempt->placement.front();
  if (at.claim_mib == 0 || !IsEased(task)) return at.claim_mib;
  const std::int64_t usable_mib = gpus[Number(at.gpu)].info.UsableMib();
  return std::max(at.claim_mib, std::min(task.estimate->peak_mib, usable_mib));
}

Choice Scheduler::State::Chosen(const TaskRecord& task, const std::vector<GpuView>& best,
                                std::size_t eligible, std::string_view rule) const {
  Choice choice;
  for (const GpuView& view : best) {
    choice.placement.push_back({view.index, ClaimOf(task, view.index)});
  }
  const GpuView& first = best.front();
  choice.why = fmt::format(
      "{}: {}, {}, {} free, SM activity {}.", rule, GpuList(choice.placement),
      eligible == best.size() ? std::string("no other could take it")
                              : fmt::format("chosen from {} that could take it", eligible),
      base::FormatMib(first.free_mib),
      first.sm_active ? fmt::format("{:.0f} %", *first.sm_active * 100) : "unknown");
  if (!first.residents.empty()) {
    const Need need = NeedNow(task);
    const Neighbour newcomer = OnPart(config, need.load, first.compute);
    const ThroughputEstimate with =
        ThroughputOf(first.residents, &newcomer, SaturationOf({}, config.sharing));
    choice.why += fmt::format(
        " Expected to add {:.2f} to the {:.2f} of work done there, and to take {:.1f} times as "
        "long "
        "as alone{}.",
        with.delivered - first.delivered, first.delivered, with.newcomer,
        task.profile->sm_active ? "" : ", if it computes as tasks usually do");
  }
  if (task.ooms > 0) choice.why += fmt::format(" Retry {} after an OOM.", task.ooms);
  return choice;
}

std::optional<Choice> Scheduler::State::ChooseIdle(const TaskRecord& task,
                                                   const std::vector<GpuView>& views) const {
  const Need need = rules->OnIdleGpu(NeedNow(task));
  std::vector<GpuView> idle;
  for (const GpuView& view : views) {
    if (FitOf(config, need, view) == Fit::kFits) idle.push_back(view);
  }
  const auto wanted = static_cast<std::size_t>(task.request->gpus);
  const std::size_t eligible = idle.size();
  if (eligible < wanted) return std::nullopt;
  std::vector<GpuLinks::Candidate> candidates;
  for (const GpuView& view : idle) candidates.push_back({view.index, 0});
  std::vector<GpuView> first;
  for (const GpuIndex gpu : links.ChooseFor(need, std::move(candidates)))
    first.push_back(*std::ranges::find(idle, gpu, &GpuView::index));
  if (first.empty()) return std::nullopt;
  return Chosen(task, first, eligible, "first idle GPU");
}

std::optional<Choice> Scheduler::State::ChooseByPolicy(const TaskRecord& task,
                                                       const std::vector<GpuView>& views) {
  const Need need = NeedNow(task);
  std::vector<GpuView> eligible;
  for (const GpuView& view : views) {
    if (FitOf(config, need, view) == Fit::kFits) eligible.push_back(view);
  }
  const auto wanted = static_cast<std::size_t>(task.request->gpus);
  if (eligible.size() < wanted) return std::nullopt;
  std::vector<GpuLinks::Candidate> candidates;
  for (const GpuView& view : eligible)
    candidates.push_back({view.index, mapper->Score(need, view)});
  std::vector<GpuView> best;
  for (const GpuIndex gpu : links.ChooseFor(need, std::move(candidates)))
    best.push_back(*std::ranges::find(eligible, gpu, &GpuView::index));
  if (best.empty()) return std::nullopt;
  Choice choice = Chosen(task, best, eligible.size(), mapper_entry->name);
  mapper->Placed(choice.placement);
  return choice;
}

void Scheduler::State::Start(TaskRecord& task, Choice choice) {
  HostShare share = ShareFor(task, choice.placement);
  if (const std::string promised = TextOf(share); !promised.empty())
    choice.why += fmt::format(" Of the server it is promised {}.", promised);
  queue.NoteStart(task, now);
  queue.Remove(task.id);
  EditLife(task.id).restored = false;
  Move(task, TaskState::kLaunching);
  task.attempt = Attempt{.number = task.attempt->number + 1,
                         .placement = std::move(choice.placement),
                         .placement_reason = {ReasonCode::kNone, std::move(choice.why)},
                         .host = std::move(share),
                         .launched = now};
  task.reason = {};
  task.not_before.reset();
  if (!task.first_start) task.first_start = now;
  if (recovery_hold.task() == task.id) recovery_hold.Drop();
  for (GpuState& gpu : gpus) {
    if (gpu.kept_place && gpu.kept_place->task == task.id) gpu.kept_place.reset();
  }
  TakeGpus(task, 0);
  Keep(task);
  const bool alone = KeepsGpusAlone(task) || task.request->gpus == 0;
  CountIdleCpus();
  actions.emplace_back(
      StartTask{task.id, task.attempt->number, task.attempt->placement, alone, BoundOf(task)});
}

bool Scheduler::State::TryStart(TaskId id, std::vector<GpuView>& views) {
  TaskRecord& task = tasks.at(id);
  if (IsLimited(task)) return false;
  if (!HostTakes(id, HostNeedOf(config, task.request))) return false;
  if (task.request->gpus == 0) {
    Start(task, WithoutGpus(task));
    return true;
  }
  std::optional<Choice> choice;
  if (config.idle_first) choice = ChooseIdle(task, views);
  if (!choice) choice = ChooseByPolicy(task, views);
  if (!choice) return false;
  Start(task, *std::move(choice));
  Refresh(task.attempt->placement, views);
  return true;
}

void Scheduler::State::Refresh(const std::vector<Placement>& taken,
                               std::vector<GpuView>& views) const {
  for (GpuView& view : views) view.idle_cpus = idle_cpus;
  for (const Placement& each : taken) views[Number(each.gpu)] = ViewOf(each.gpu, now);
}

std::vector<TaskId> Scheduler::State::ConflictingTasks(const Reservation& booking,
                                                       GpuIndex gpu) const {
  std::vector<TaskId> there;
  for (const Resident& resident : ledger.ResidentsOf(gpu)) {
    if (!IsFor(booking, tasks.at(resident.task).request)) there.push_back(resident.task);
  }
  return there;
}

void Scheduler::State::SettleReservations() {
  reservations.Settle(now, config.booking_lead, gpu_infos,
                      [this](const Reservation& booking, GpuIndex gpu) {
                        const GpuState& state = gpus[Number(gpu)];
                        return ReservationBook::Standing{
                            .open = state.healthy && !state.Drained(),
                            .others = static_cast<int>(ConflictingTasks(booking, gpu).size())};
                      });
}

void Scheduler::State::StartOnReserved(std::vector<GpuView>& views) {
  if (!reservations.HoldAt(now)) return;
  LineUp line = MainLine();
  for (std::size_t looks = 0; looks < kBookedLooks; ++looks) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    TaskRecord& task = tasks.at(next->task);
    const std::vector<GpuIndex> gpus_for = reservations.GpusFor(reservations.Of(task.request), now);
    if (gpus_for.empty() || IsLimited(task)) continue;
    if (!HostTakes(task.id, HostNeedOf(config, task.request))) continue;
    std::vector<GpuView> own;
    for (const GpuIndex gpu : gpus_for) own.push_back(views[Number(gpu)]);
    std::optional<Choice> choice = ChooseByPolicy(task, own);
    if (!choice) continue;
    Start(task, *std::move(choice));
    Refresh(task.attempt->placement, views);
  }
}

// Prefers the first fitting task of a user without failed launches, else the first fitting one.
void Scheduler::State::StartTrial() {
  if (!launch_trouble.MayTry(now)) return;
  std::vector<GpuView> views = Views(now);
  const std::vector<TaskId> first = ForTrial();
  for (const bool of_others : {true, false}) {
    for (const TaskId id : first) {
      if (of_others && launch_trouble.FailedFor(tasks.at(id).request->uid)) continue;
      if (TryStart(id, views)) return launch_trouble.Tried(now);
    }
  }
}

std::vector<TaskId> Scheduler::State::ForTrial() const {
  std::vector<TaskId> first;
  for (const QueueKey& key : queue.Recovery()) {
    if (first.size() == kTrialLooks) break;
    first.push_back(key.task);
  }
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    LineUp line = Line(kind);
    std::size_t looks = 0;
    for (auto next = line.Pop(); next && looks < kTrialLooks; next = line.Pop(), ++looks)
      first.push_back(next->task);
  }
  return first;
}

void Scheduler::State::StartWhatFits() {
  ForgetLooksOnceEased();
  if (launch_trouble.on()) return StartTrial();
  const std::set<QueueKey>& recovery = queue.Recovery();
  const WaitingLine& main = queue.Main();
  if (main.empty()) NoteHead();
  if (recovery.empty() && main.empty()) return;
  std::vector<GpuView> views = Views(now);
  // A recovery task does not block others: one may wait for an idle GPU while the next one fits
  // anywhere.
  std::vector<TaskId> crashed;
  for (const QueueKey& key : recovery) {
    if (crashed.size() == kRecoveryLooks) break;
    crashed.push_back(key.task);
  }
  for (const TaskId id : crashed) {
    // When the task with the hold starts, its other kept GPUs are free for tasks behind it.
    const bool reserving = recovery_hold.task() == id;
    if (TryStart(id, views) && reserving) views = Views(now);
  }
  if (config.recovery_blocks && !recovery.empty()) return;
  if (views.empty()) return;
  const NoStartSnapshot look = LookNow(views);
  const bool opens_nothing = no_start && !config.require && OpensNothingSince(look);
  if (opens_nothing && SameLineSince(look)) return;
  const std::vector<bool> opened = OpenedSince(look);
  if (!opens_nothing) {
    refused.Clear();
    taken_since.clear();
  }
  StartOnReserved(views);
  if (mapper_entry->chooses_task) {
    StartBestFirst(views, opened);
  } else {
    StartInOrder(views);
  }
  StartBeside(views);
  no_start = LookNow(views);
  no_start->order_until = NextOrder();
  NoteHead();
}

}  // namespace carma::core
