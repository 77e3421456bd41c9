#include "core/scheduler/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "core/scheduler/best_first.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/task_life.h"
#include "core/scheduler/time_slices.h"
#include "core/scheduler/waiting.h"

namespace carma::core {
namespace {

// Maximum number of tasks per queue to consider for a trial start (LaunchTrouble).
constexpr std::size_t kTrialLooks = 256;
// Maximum number of tasks to consider for reserved GPUs in each decision.
constexpr std::size_t kBookedLooks = 1000;

std::string GpuList(const std::vector<Placement>& placement) {
  return fmt::format("GPU{} {}", placement.size() == 1 ? "" : "s",
                     fmt::join(placement | std::views::transform(&Placement::gpu), ", "));
}

// Returns a reason if the task would have to use MIG instances, which cannot be combined with other
// GPUs.
std::optional<Reason> NeverTogether(const State& state, const Need& need) {
  int instances = 0, whole = 0;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    if (need.choice && !need.choice->Allows(GpuIndex{i})) continue;
    ++(state.gpus.all[i].info.mig ? instances : whole);
  }
  if (need.gpus < 2 || instances == 0 || need.gpus <= whole) return std::nullopt;
  return Reason{ReasonCode::kMigInstance,
                fmt::format("The task asks for {} GPUs; it may use {} and {}, which cannot be "
                            "combined with other GPUs.",
                            need.gpus, base::Counted(whole, "whole GPU"),
                            base::Counted(instances, "MIG instance"))};
}

std::int64_t ClaimOf(const State& state, const TaskRecord& task, GpuIndex gpu, Part part) {
  const Need need = NeedNow(state, task);
  if (part == Part::kOther && need.others_mib) return *need.others_mib;
  std::int64_t claim_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
  if (task.ooms > 0) claim_mib = std::max(claim_mib, task.peak_mib);
  return std::min(claim_mib, state.gpus.all[Number(gpu)].info.UsableMib());
}

// Computes StartTask::bound_mib.
std::int64_t BoundOf(const State& state, const TaskRecord& task) {
  if (task.attempt->placement.empty()) return 0;
  const Placement& at = task.attempt->placement.front();
  if (at.claim_mib == 0 || !LikelyMib(state, task)) return at.claim_mib;
  const std::int64_t usable_mib = state.gpus.all[Number(at.gpu)].info.UsableMib();
  return std::max(at.claim_mib, std::min(task.estimate->peak_mib, usable_mib));
}

// Starts tasks on GPUs that are reserved for them, even if other tasks are ahead of them in the
// queue.
void StartOnReserved(State& state, std::vector<GpuView>& views) {
  if (!state.reservations.HoldAt(state.now)) return;
  LineUp line = Line(state, LineKind::kWithGpus);
  for (std::size_t looks = 0; looks < kBookedLooks; ++looks) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    TaskRecord& task = state.tasks.at(next->task);
    const std::vector<GpuIndex> gpus_for =
        state.reservations.GpusFor(state.reservations.Of(task.request), state.now);
    if (gpus_for.empty() || IsLimited(state, task)) continue;
    if (!HostTakes(state, task.id, HostNeedOf(state.config, task.request))) continue;
    std::vector<GpuView> own;
    for (const GpuIndex gpu : gpus_for) own.push_back(views[Number(gpu)]);
    std::optional<Choice> choice = ChooseByPolicy(state, task, own);
    if (!choice) continue;
    Start(state, task, *std::move(choice));
    Refresh(state, task.attempt->placement, views);
  }
}

// The first tasks of each queue, which are the candidates for a trial start.
std::vector<TaskId> ForTrial(const State& state) {
  std::vector<TaskId> first;
  for (const QueueKey& key : state.queue.Recovery()) {
    if (first.size() == kTrialLooks) break;
    first.push_back(key.task);
  }
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    LineUp line = Line(state, kind);
    std::size_t looks = 0;
    for (auto next = line.Pop(); next && looks < kTrialLooks; next = line.Pop(), ++looks)
      first.push_back(next->task);
  }
  return first;
}

// Starts the first task that fits, preferably one whose user has had no failed launches.
void StartTrial(State& state) {
  if (state.closing || !state.launch_trouble.MayTry(state.now)) return;
  std::vector<GpuView> views = Views(state, state.now);
  const std::vector<TaskId> first = ForTrial(state);
  for (const bool of_others : {true, false}) {
    for (const TaskId id : first) {
      if (of_others && state.launch_trouble.FailedFor(state.tasks.at(id).request->uid)) continue;
      if (TryStart(state, id, views)) return state.launch_trouble.Tried(state.now);
    }
  }
}

// Sets GpuView::healthy, GpuView::trouble, and the task that the GPU is kept for.
void ShowHealth(const State& state, const GpuState& gpu, Time at, GpuView& view) {
  if (view.LeftAlone()) return;  // it is not read, so gpu.trouble may be out of date
  const std::string drain = view.trouble;
  // While the store refuses writes, no samples reach the core. Measuring a sample's age only up to
  // the last event keeps it from looking stale during that time.
  const Duration age = gpu.sample ? std::min(at, state.now) - gpu.sample->taken : Duration{0};
  if (!gpu.healthy) {
    view.trouble = gpu.trouble;
  } else if (!gpu.sample) {
    view.trouble = "no sample has arrived yet";
  } else if (age > state.config.stale_after) {
    view.trouble = fmt::format("its last sample is {} s old; the limit is {} s", base::Seconds(age),
                               base::Seconds(state.config.stale_after));
  } else if (!gpu.sample_trouble.empty()) {
    view.trouble = gpu.sample_trouble;
  } else {
    view.healthy = true;
    view.room_made = !state.recovery_hold.Keeps(view.index);
    view.reserved_for = view.room_made ? KeptFor(state, gpu, at) : state.recovery_hold.task();
    return;
  }
  view.healthy = false;
  if (drain.empty()) return;
  // A drain for a driver upgrade already explains why the driver does not respond.
  const bool explained = drain.starts_with(kDriverUpgradeText) || drain == view.trouble;
  view.trouble = explained ? drain : fmt::format("{}; {}", drain, view.trouble);
}

// The reason shown if a task fits on too few of the GPUs it may use.
Reason TooFewFit(const Need& need, int fitting, int chosen, std::int64_t largest_mib) {
  const std::int64_t needs_mib = need.memory_mib.value_or(0);
  std::string needs = base::FormatMib(needs_mib);
  std::string largest = base::FormatMib(largest_mib);
  if (needs == largest) {
    needs = fmt::format("{}M", needs_mib);
    largest = fmt::format("{}M", largest_mib);
  }
  if (fitting == 0) {
    return {ReasonCode::kNeverFits,
            fmt::format("{} does not fit on any GPU that the task may use; the largest has "
                        "{}.",
                        needs, largest)};
  }
  return {ReasonCode::kNeverFits,
          fmt::format("{} fits on {} of {} GPUs, but the task needs {}; the largest has {}.", needs,
                      fitting, chosen, need.gpus, largest)};
}

}  // namespace

// An exclusive task that does not use its GPUs can be made to share them (IdleAction::kShare).
bool IsExclusive(const State& state, const Resident& resident) {
  if (!resident.exclusive || state.config.idle_action != IdleAction::kShare)
    return resident.exclusive;
  return !state.tasks.at(resident.task).attempt->idle_since;
}

GpuView ViewOf(const State& state, GpuIndex index, Time at) {
  const GpuState& gpu = state.gpus.all[Number(index)];
  const Account account = state.ledger.AccountOf(index, PlateauFrom(state, at));
  const std::span<const Resident> residents = state.ledger.ResidentsOf(index);
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
               .limited = gpu.limited,
               .tasks = static_cast<int>(residents.size()),
               .mig = gpu.info.mig,
               .compute = gpu.info.compute,
               .pace = gpu.pace,
               .drained = gpu.Drained() || state.closing,
               .drained_by_rule = !gpu.drained_by_person && !state.closing && gpu.drained_by_rule,
               .empty_by = gpu.empty_by,
               .idle_cpus = state.config.pacing == Pacing::kImmediate ? state.machine.idle_cpus
                                                                      : std::nullopt,
               .at = at,
               .booked = state.reservations.On(index)};
  // Copy the text only for drained GPUs, because every decision builds a view of every GPU.
  if (view.drained) {
    view.trouble = gpu.drained_by_person ? *gpu.drained_by_person
                   : state.closing       ? state.closing->why
                                         : *gpu.drained_by_rule;
  }
  for (const Resident& resident : residents) {
    view.exclusive_task |= IsExclusive(state, resident);
    view.sm_shares += resident.sm_share;
  }
  if (gpu.sample) {
    ShowActivity(state, index, at, view);
    view.utilization = gpu.sample->utilization;
    view.foreign_processes = gpu.sample->foreign_processes;
  }
  state.rules->Show(view);
  ShowHealth(state, gpu, at, view);
  return view;
}

std::vector<GpuView> Views(const State& state, Time at) {
  // Made's conversion operator constructs each view inside the vector. Most decisions build all
  // views, and moving them took a tenth of the time of each decision triggered by a sample.
  struct Made {
    const State& state;
    GpuIndex index;
    Time at;
    operator GpuView() const { return ViewOf(state, index, at); }
  };
  std::vector<GpuView> views;
  views.reserve(state.gpus.all.size());
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i)
    views.emplace_back(Made{state, GpuIndex{i}, at});
  return views;
}

std::optional<Reason> NeverFits(const State& state, const TaskRequest& request,
                                const std::optional<Estimate>& estimate) {
  Need need = NeedOf(state.config, request, estimate);
  need.choice = ChoiceOf(request, state.gpus.infos);
  const HostInfo& whole = state.machine.books.info();
  const auto cores = static_cast<int>(std::ssize(whole.cores));
  Verdict by_host = CheckHost(need.host, {whole.cpus, whole.cpus, cores, cores, whole.memory_mib,
                                          whole.memory_mib, std::nullopt});
  if (by_host.fit != Fit::kFits)
    return Reason{ReasonCode::kNeverFits, std::move(by_host.reason.text)};
  if (request.gpus == 0) return std::nullopt;
  if (std::optional<std::string> misnamed = MisnamedGpus(request, state.gpus.infos))
    return Reason{ReasonCode::kGpuChoice, *std::move(misnamed)};
  if (std::optional<Reason> divided = NeverTogether(state, need)) return divided;
  if (request.gpus < 0 || static_cast<std::size_t>(request.gpus) > state.gpus.all.size()) {
    return Reason{ReasonCode::kNeverFits,
                  fmt::format("The task asks for {} GPUs, but this server has {}.", request.gpus,
                              state.gpus.all.size())};
  }
  int fitting = 0;
  int chosen = 0;
  std::vector<GpuLinks::Candidate> could;
  std::int64_t largest_mib = 0;
  GpuView idle;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    if (need.choice && !need.choice->Allows(GpuIndex{i})) continue;
    ++chosen;
    const std::int64_t usable_mib = state.gpus.all[i].info.UsableMib();
    largest_mib = std::max(largest_mib, usable_mib);
    idle.index = GpuIndex{i};
    idle.total_mib = usable_mib;
    idle.free_mib = usable_mib;
    idle.mig = state.gpus.all[i].info.mig;
    if (FitOf(state.config, need, idle) == Fit::kNever) continue;
    ++fitting;
    if (need.linked) {
      could.push_back({GpuIndex{i}, 0});
    } else if (fitting == request.gpus) {
      return std::nullopt;
    }
  }
  if (fitting >= request.gpus) {
    if (!need.linked || !state.gpus.links.ChooseFor(need, std::move(could)).empty())
      return std::nullopt;
    return Reason{ReasonCode::kNotLinked,
                  fmt::format("The task needs {} GPUs that are connected to each other (NVLink); "
                              "no {} of the GPUs that it may use are connected.",
                              request.gpus, request.gpus)};
  }
  if (chosen < request.gpus)
    return Reason{ReasonCode::kGpuChoice, TooFewChosen(request, state.gpus.infos, chosen)};
  // If a GPU's properties could not be read, its memory counts as 0.
  const std::string& trouble = state.gpus.all[Number(idle.index)].trouble;
  if (largest_mib == 0 && !trouble.empty()) {
    return Reason{ReasonCode::kNeverFits,
                  fmt::format("GPU {} cannot be used: {}.", idle.index, trouble)};
  }
  return TooFewFit(need, fitting, chosen, largest_mib);
}

Choice Chosen(const State& state, const TaskRecord& task, const std::vector<GpuView>& best,
              std::size_t eligible, std::string_view rule) {
  Choice choice;
  for (const GpuView& view : best) {
    const Part part = choice.placement.empty() ? Part::kFirst : Part::kOther;
    choice.placement.push_back({view.index, ClaimOf(state, task, view.index, part)});
  }
  const GpuView& first = best.front();
  choice.why = fmt::format(
      "{}: {}, {}, {} free, SM activity {}.", rule, GpuList(choice.placement),
      eligible == best.size() ? std::string("no other could take it")
                              : fmt::format("chosen from {} that could take it", eligible),
      base::FormatMib(first.free_mib),
      first.sm_active ? fmt::format("{:.0f} %", *first.sm_active * 100) : "unknown");
  if (!first.residents.empty()) {
    const Need need = NeedNow(state, task);
    const Neighbour newcomer = OnPart(need.load, first);
    const ThroughputEstimate with = ThroughputOf(
        first.residents, &newcomer, SaturationOf({}, SharingOn(state.config, first.mig)));
    choice.why += fmt::format(
        " Expected to add {:.2f} to the GPU's throughput of {:.2f} and to take {:.1f} times as "
        "long as when running alone{}.",
        with.delivered - first.delivered, first.delivered, with.newcomer,
        task.profile->sm_active ? "" : ", assuming typical GPU use");
  }
  if (best.size() > 1 && choice.placement[1].claim_mib < choice.placement[0].claim_mib) {
    choice.why += fmt::format(" It is promised {} on GPU {} and {} on each of its other GPUs.",
                              base::FormatMib(choice.placement[0].claim_mib), first.index,
                              base::FormatMib(choice.placement[1].claim_mib));
  }
  if (task.ooms > 0) choice.why += fmt::format(" Retry {} after an OOM.", task.ooms);
  return choice;
}

std::optional<Choice> ChooseIdle(const State& state, const TaskRecord& task,
                                 const std::vector<GpuView>& views) {
  const Need need = state.rules->OnIdleGpu(NeedNow(state, task));
  std::vector<GpuView> idle;
  for (const GpuView& view : views) {
    if (FitOf(state.config, need, view) == Fit::kFits) idle.push_back(view);
  }
  const auto wanted = static_cast<std::size_t>(task.request->gpus);
  const std::size_t eligible = idle.size();
  if (eligible < wanted) return std::nullopt;
  std::vector<GpuLinks::Candidate> candidates;
  for (const GpuView& view : idle) candidates.push_back({view.index, 0});
  std::vector<GpuView> first;
  for (const GpuIndex gpu : state.gpus.links.ChooseFor(need, std::move(candidates)))
    first.push_back(*std::ranges::find(idle, gpu, &GpuView::index));
  if (first.empty()) return std::nullopt;
  return Chosen(state, task, first, eligible, "first idle GPU");
}

std::optional<Choice> ChooseByPolicy(State& state, const TaskRecord& task,
                                     const std::vector<GpuView>& views) {
  const Need need = NeedNow(state, task);
  std::vector<GpuView> eligible;
  for (const GpuView& view : views) {
    if (FitOf(state.config, need, view, Part::kOther) == Fit::kFits) eligible.push_back(view);
  }
  const auto wanted = static_cast<std::size_t>(task.request->gpus);
  if (eligible.size() < wanted) return std::nullopt;
  std::vector<GpuLinks::Candidate> candidates;
  for (const GpuView& view : eligible) {
    const bool may_be_first = FitOf(state.config, need, view) == Fit::kFits;
    candidates.push_back({view.index, state.mapper->Score(need, view), may_be_first});
  }
  std::vector<GpuView> best;
  for (const GpuIndex gpu : state.gpus.links.ChooseFor(need, std::move(candidates)))
    best.push_back(*std::ranges::find(eligible, gpu, &GpuView::index));
  if (best.empty()) return std::nullopt;
  Choice choice = Chosen(state, task, best, eligible.size(), state.mapper_entry->name);
  state.mapper->Placed(choice.placement);
  return choice;
}

void Start(State& state, TaskRecord& task, Choice choice) {
  HostShare share = ShareFor(state, task, choice.placement);
  if (const std::string promised = TextOf(share); !promised.empty())
    choice.why += fmt::format(" The server reserves {} for it.", promised);
  state.queue.NoteStart(task, state.now);
  state.queue.Remove(task.id);
  Life& life = state.EditLife(task.id);
  life.restored = false;
  life.launched_before = task.attempt->launched;
  state.Move(task, TaskState::kLaunching);
  task.attempt = Attempt{.number = task.attempt->number + 1,
                         .placement = std::move(choice.placement),
                         .placement_reason = {ReasonCode::kNone, std::move(choice.why)},
                         .host = std::move(share),
                         .launched = state.now};
  task.reason = {};
  task.not_before.reset();
  if (!task.first_start) task.first_start = state.now;
  if (state.recovery_hold.task() == task.id) state.recovery_hold.Drop();
  for (GpuState& gpu : state.gpus.all) {
    if (!gpu.kept_place || gpu.kept_place->task != task.id) continue;
    gpu.kept_place.reset();
    state.passes.gave_up_place = true;
  }
  state.TakeGpus(task, 0);
  for (const Placement& each : task.attempt->placement) state.passes.taken_since.insert(each.gpu);
  state.Keep(task);
  const bool alone = KeepsGpusAlone(state, task) || task.request->gpus == 0;
  CountIdleCpus(state);
  state.out.actions.emplace_back(StartTask{task.id, task.attempt->number, task.attempt->placement,
                                           alone, BoundOf(state, task)});
}

bool TryStart(State& state, TaskId id, std::vector<GpuView>& views) {
  TaskRecord& task = state.tasks.at(id);
  if (IsLimited(state, task)) return false;
  if (!HostTakes(state, id, HostNeedOf(state.config, task.request))) return false;
  if (task.request->gpus == 0) {
    Start(state, task, WithoutGpus(state, task));
    return true;
  }
  std::optional<Choice> choice;
  if (state.config.idle_first) choice = ChooseIdle(state, task, views);
  if (!choice) choice = ChooseByPolicy(state, task, views);
  if (!choice) return false;
  Start(state, task, *std::move(choice));
  Refresh(state, task.attempt->placement, views);
  return true;
}

void Refresh(const State& state, const std::vector<Placement>& taken, std::vector<GpuView>& views) {
  for (GpuView& view : views) view.idle_cpus = state.machine.idle_cpus;
  for (const Placement& each : taken) views[Number(each.gpu)] = ViewOf(state, each.gpu, state.now);
}

std::vector<TaskId> ConflictingTasks(const State& state, const Reservation& booking, GpuIndex gpu) {
  std::vector<TaskId> there;
  for (const Resident& resident : state.ledger.ResidentsOf(gpu)) {
    if (!IsFor(booking, state.tasks.at(resident.task).request)) there.push_back(resident.task);
  }
  return there;
}

void SettleReservations(State& state) {
  state.reservations.Settle(
      state.now, state.config.booking_lead, state.gpus.infos,
      [&state](const ReservedPeriod& period, GpuIndex gpu) {
        const GpuState& its = state.gpus.all[Number(gpu)];
        ReservationBook::Standing standing{.open = its.healthy && !its.Drained()};
        for (const Resident& each : state.ledger.ResidentsOf(gpu)) {
          const TaskRecord& task = state.tasks.at(each.task);
          if (!IsFor(period.booking, task.request))
            ++standing.others;
          else if (task.attempt->launched.value_or(period.from) >= period.from)
            ++standing.own;
        }
        return standing;
      });
}

void StartWhatFits(State& state, PassLine& line) {
  ReconsiderAtTurns(state);
  if (state.launch_trouble.on()) return StartTrial(state);
  const std::set<QueueKey>& recovery = state.queue.Recovery();
  const WaitingLine& main = state.queue.Main();
  if (main.empty()) state.heads.passed = {};
  if (recovery.empty() && main.empty()) return;
  std::vector<GpuView> views = Views(state, state.now);
  // A recovery task does not block the tasks behind it, because it may need an idle GPU while the
  // next task fits on any GPU.
  std::vector<TaskId> crashed;
  for (const QueueKey& key : recovery) {
    if (crashed.size() == kRecoveryLooks) break;
    crashed.push_back(key.task);
  }
  for (const TaskId id : crashed) {
    // Once a task has started, tasks behind it may use the GPUs that were kept for it but not
    // taken.
    const bool reserving = state.recovery_hold.task() == id;
    if (TryStart(state, id, views) && reserving) views = Views(state, state.now);
  }
  if (state.config.recovery_blocks && !recovery.empty()) return;
  if (views.empty()) return;
  const NoStartSnapshot look = LookNow(state, views);
  const bool opens_nothing =
      state.passes.no_start && !state.config.require && OpensNothingSince(state, look);
  const bool after_start = !state.passes.taken_since.empty();
  if (opens_nothing && !after_start && SameLineSince(state, look)) return;
  const std::vector<bool> opened = OpenedSince(state, look);
  // After a start, a waiting task may find better neighbours than before on the GPUs that were just
  // taken.
  const bool may_gain = state.mapper_entry->chooses_task || state.config.min_gain;
  if (!opens_nothing || (after_start && may_gain)) state.passes.refused.Clear();
  state.passes.taken_since.clear();
  StartOnReserved(state, views);
  if (state.mapper_entry->chooses_task) {
    StartBestFirst(state, views, opened, line);
  } else {
    StartInOrder(state, views, line);
  }
  StartBeside(state, views, line);
  state.passes.no_start = LookNow(state, views);
  state.passes.no_start->order_until = NextOrder(state);
  if (std::exchange(state.passes.gave_up_place, false)) state.passes.Forget();
  NoteHead(state, line);
}

}  // namespace carma::core
