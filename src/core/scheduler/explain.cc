#include "core/scheduler/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/cpu_list.h"
#include "base/text.h"
#include "core/scheduler/expecting.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/task_life.h"
#include "core/scheduler/time_slices.h"
#include "core/scheduler/waiting.h"
#include "core/values/reason_line.h"

namespace carma::core {
namespace {

// More sentences than this would not help the reader.
constexpr std::size_t kMaxSentences = 4;

// A start usually takes less than a second.
constexpr Duration kLateStart{30'000};

// A GPU that cannot take the task now.
struct Closed {
  GpuIndex gpu;
  Verdict verdict;
};

// Merges sentences that differ only in the GPU number: "each of GPUs 0-3". GPUs whose tasks started
// together settle within milliseconds of each other, so the merged sentence contains the latest
// time.
std::vector<std::string> Sentences(const std::vector<const Closed*>& closed) {
  struct Group {
    std::string_view before, after;
    bool settles = false;
    std::vector<int> gpus;
    bool Joins(const Group& other) const {
      const bool later = settles && other.settles && after.size() == other.after.size();
      return before == other.before && (later || after == other.after);
    }
  };
  std::vector<Group> groups;
  for (const Closed* each : closed) {
    const std::string_view text = *each->verdict.reason.text;
    const std::string name = fmt::format("GPU {}", each->gpu);
    std::size_t at = text.find(name);
    while (at != text.npos &&
           text.find_first_of("0123456789", at + name.size()) == at + name.size())
      at = text.find(name, at + 1);  // "GPU 1" must not match "GPU 12"
    Group group{text.substr(0, at), "", each->verdict.reason.code == ReasonCode::kWarmUp, {}};
    if (at != text.npos) {
      group.after = text.substr(at + name.size());
      group.gpus = {static_cast<int>(Number(each->gpu))};
    }
    const auto same =
        std::ranges::find_if(groups, [&](const Group& other) { return other.Joins(group); });
    if (same == groups.end()) {
      groups.push_back(std::move(group));
    } else {
      same->after = std::max(same->after, group.after);
      same->gpus.insert(same->gpus.end(), group.gpus.begin(), group.gpus.end());
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [before, after, settles, gpus] : groups) {
    const std::string name = gpus.empty()       ? ""
                             : gpus.size() == 1 ? "GPU "
                             : before.empty()   ? "Each of GPUs "
                                                : "each of GPUs ";
    sentences.push_back(fmt::format("{}{}{}{}", before, name, base::CpuListText(gpus), after));
  }
  return sentences;
}

Verdict VerdictOnPart(const State& state, const TaskRecord& task, const GpuView& view, Part part) {
  const bool as_idle = state.config.idle_first && view.Idle();
  const Need need = NeedNow(state, task);
  return CheckGuards(state.config, as_idle ? state.rules->OnIdleGpu(need) : need, view, part);
}

// before: an introductory sentence about the GPUs as a group; may be empty.
Reason Summary(const std::vector<Closed>& closed, const std::string& before) {
  // GPUs that are too small for the task do not explain why it waits, unless all GPUs are too
  // small.
  std::vector<const Closed*> telling;
  for (const Closed& each : closed) {
    if (each.verdict.fit == Fit::kNotNow) telling.push_back(&each);
  }
  if (telling.empty()) {
    for (const Closed& each : closed) telling.push_back(&each);
  }
  if (telling.empty()) return {ReasonCode::kResources, "No GPUs were found."};
  Reason reason{telling.front()->verdict.reason.code, before};
  for (const Closed* each : telling) {
    if (each->verdict.reason.code != reason.code) reason.code = ReasonCode::kResources;
  }
  std::vector<std::string> sentences = Sentences(telling);
  if (sentences.size() > kMaxSentences) {
    const std::size_t more = sentences.size() - kMaxSentences;
    sentences.resize(kMaxSentences);
    sentences.push_back(fmt::format("And {} more.", more));
  }
  reason.text.Edit() += base::Join(sentences, " ");
  return reason;
}

// A user's tasks of one class keep their order, so if a limit keeps the first of them waiting, none
// of the others may overtake it.
std::optional<Reason> ReasonBehindLimited(const State& state, const TaskRecord& task, Time at) {
  if (task.queue == QueueKind::kRecovery || !state.limits.Concerns()) return std::nullopt;
  const std::map<LineKey, HolderLine>& lines = state.queue.Main(LineKindOf(task.request)).holders;
  const auto line = lines.find(LineOf(task));
  if (line == lines.end()) return std::nullopt;
  const QueueKey& key = *line->second.tasks.begin();
  if (state.queue.KeyOf(task) < key) return std::nullopt;  // a new task of higher priority
  const TaskId first = key.task;
  const std::optional<LimitHit> hit = LimitOn(state, state.tasks.at(first), at);
  if (!hit) return std::nullopt;
  return Reason{
      ReasonCode::kLimit,
      fmt::format("It waits behind task {} of the same user and class. {}", first, TextOf(*hit))};
}

// True if the task is close enough to the head of its main queue to be considered (backfill).
bool IsLookedAt(const State& state, const TaskRecord& task) {
  LineUp line = Line(state, LineKindOf(task.request));
  for (int looks = 0; looks < state.config.backfill; ++looks) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) return false;
    if (next->task == task.id) return true;
  }
  return false;
}

// Explains why `task` waits behind `first`. starving: `first` goes first only because of
// FairRules::patience.
Reason ReasonBehind(const State& state, const TaskRecord& task, TaskId first, bool starving) {
  const TaskRequest& other = state.tasks.at(first).request;
  const bool same_holder = HolderOf(other) == HolderOf(task.request);
  if (starving && !same_holder) {
    return {
        ReasonCode::kFairShare,
        fmt::format("Task {0} of {1} goes first: no task of {1} in its class has started for at "
                    "least {2} (fair.patience).",
                    first, UserOf(other), base::FormatSpan(state.config.fair.patience))};
  }
  if (state.config.order == QueueOrder::kFifo || same_holder ||
      PriorityOf(state.config, other) > PriorityOf(state.config, task.request)) {
    return {ReasonCode::kPriority, fmt::format("Task {} is first in the queue.", first)};
  }
  const LineUp line = Line(state, LineKindOf(task.request));
  // Two users of the same account are compared by their usage within the account.
  const bool within = other.account && other.account == task.request->account;
  const auto hours = [&](const TaskRequest& request) {
    const auto at = line.Find({HolderOf(request), request.qos.value_or("")});
    return at ? (within ? line.ShareInAccount(*at) : line.ShareOf(*at)) / 3600 : 0;
  };
  const auto whose = [&](const TaskRequest& request) {
    return request.account && !within ? fmt::format("account {}", *request.account)
                                      : UserOf(request);
  };
  return {ReasonCode::kFairShare,
          fmt::format("Task {0} of {1} goes first: {1} has used {2:.1f} weighted GPU hours, {3} "
                      "{4:.1f} (half-life {5}; running tasks count as if they had run {6} longer).",
                      first, whose(other), hours(other), whose(task.request), hours(task.request),
                      base::FormatSpan(state.config.fair.half_life), base::FormatSpan(kRunsOn))};
}

// Describes the GPUs that are or will be kept free for the task. Empty if there are none. For
// example, none are kept for the head of a queue that no task may overtake.
std::string WhatIsKeptFor(const State& state, const TaskRecord& task, Time at) {
  if (state.recovery_hold.task() == task.id) {
    const std::span<const GpuIndex> gpus = state.recovery_hold.gpus();
    const bool one = gpus.size() == 1;
    return fmt::format(" GPU{} {} {} kept for it.", one ? "" : "s", fmt::join(gpus, ", "),
                       one ? "is" : "are");
  }
  // GPUs are held for only one task at a time. While they are held for another task, it is unknown
  // when they will be held for this one.
  if (state.heads.passed.task != task.id || !state.config.pass_limit || state.recovery_hold.task())
    return "";
  const Time from = state.heads.passed.since + *state.config.pass_limit;
  if (at >= from || (TimesPassed(state) == 0 && FirstOnly(state))) return "";
  // The GPUs must still be unreserved at that time.
  RecoveryHold hold;
  if (!hold.Keep(state.config, state.gpus.links, NeedNow(state, task), Views(state, from)))
    return "";
  return fmt::format(" GPUs will be kept for it starting at {}.", base::FormatTimeIso(from));
}

Reason ReasonAtHead(const State& state, const TaskRecord& task, Time at) {
  Verdict by_host = HostVerdictOn(state, task, at).verdict;
  if (task.request->gpus == 0 && by_host.fit != Fit::kFits) return std::move(by_host.reason);
  const int wanted = task.request->gpus;
  std::vector<Closed> closed, not_first;
  std::vector<GpuLinks::Candidate> open;
  for (const GpuView& view : Views(state, at)) {
    Verdict verdict = VerdictOnPart(state, task, view, Part::kOther);
    if (verdict.fit != Fit::kFits) {
      closed.push_back({view.index, std::move(verdict)});
      continue;
    }
    Verdict as_first = VerdictOnPart(state, task, view, Part::kFirst);
    open.push_back({view.index, 0, as_first.fit == Fit::kFits});
    if (as_first.fit != Fit::kFits) not_first.push_back({view.index, std::move(as_first)});
  }
  const auto fitting = static_cast<int>(open.size());
  if (fitting < wanted) {
    return Summary(closed,
                   wanted > 1 ? fmt::format("Needs {} GPUs, but {} can take the task. ", wanted,
                                            fitting == 0 ? "none" : fmt::format("only {}", fitting))
                              : "");
  }
  if (fitting > 0 && not_first.size() == open.size()) {
    return Summary(not_first,
                   fmt::format("Needs {} GPUs, the first with more memory than the others, but no "
                               "GPU has enough memory for the first. ",
                               wanted));
  }
  if (wanted > 1 && state.gpus.links.ChooseFor(NeedNow(state, task), std::move(open)).empty()) {
    return {ReasonCode::kNotLinked,
            fmt::format("Needs {} GPUs that are connected to each other (NVLink); {} GPUs "
                        "could take the task, but no {} of them are connected.",
                        task.request->gpus, fitting, task.request->gpus)};
  }
  if (by_host.fit != Fit::kFits) return std::move(by_host.reason);
  if (state.launch_trouble.on()) return {ReasonCode::kMachineTrouble, state.launch_trouble.Text()};
  if (state.passes.waiting_pays && task.queue == QueueKind::kMain) {
    return {ReasonCode::kPriority,
            "It could start now, but tasks are predicted to finish earlier overall if it waits for "
            "the next one to end."};
  }
  return state.rules->WhyNotYet(task, at);
}

Reason ReasonInLine(const State& state, const TaskRecord& task, Time at) {
  if (std::optional<Reason> barred = ReasonToBar(state, task, WantsOf(state, task), at))
    return *std::move(barred);
  const std::set<QueueKey>& recovery = state.queue.Recovery();
  const LineKind kind = LineKindOf(task.request);
  const bool with_gpus = kind == LineKind::kWithGpus;
  if (task.queue == QueueKind::kMain && with_gpus && state.config.recovery_blocks &&
      !recovery.empty()) {
    return {ReasonCode::kPriority,
            fmt::format("Task {} is waiting for recovery and blocks the queue (published rules).",
                        recovery.begin()->task)};
  }
  const std::optional<LineUp::Next> first =
      task.queue == QueueKind::kMain ? Line(state, kind).Pop() : std::nullopt;
  if (task.queue == QueueKind::kMain && state.config.backfill > 1) {
    if (!IsLookedAt(state, task) && !(with_gpus && HasPlaceBeside(state, task, at))) {
      return {ReasonCode::kPriority,
              fmt::format("Only the first {} tasks in the queue may start now (policy.backfill).",
                          state.config.backfill)};
    }
  } else if (!with_gpus || state.rules->HeadOnly(task.queue)) {
    const bool crashed = task.queue == QueueKind::kRecovery;
    const std::optional<TaskId> head = crashed ? recovery.begin()->task
                                       : first ? first->task
                                               : state.queue.Main(kind).First();
    if (head && *head != task.id && (crashed || !with_gpus || !HasPlaceBeside(state, task, at)))
      return ReasonBehind(state, task, *head, first && first->starving);
  }
  Reason reason = ReasonAtHead(state, task, at);
  if (const int times = TimesPassed(state); state.heads.passed.task == task.id && times > 0) {
    reason.text.Edit() +=
        fmt::format(" {} started ahead of it after it reached the head of the queue ({}).",
                    base::Counted(times, "task"), base::FormatTimeIso(state.heads.passed.since));
  }
  if (with_gpus) reason.text.Edit() += WhatIsKeptFor(state, task, at);
  return reason;
}

}  // namespace

std::optional<Reason> ReasonToBar(const State& state, const TaskRecord& task,
                                  const Limits::Wants& wants, Time at) {
  if (state.closing)
    return Reason{ReasonCode::kDraining, fmt::format("The server is {}.", state.closing->why)};
  if (const std::optional<LimitHit> hit = state.limits.AgainstStart(task, wants, at))
    return Reason{ReasonCode::kLimit, TextOf(*hit)};
  return ReasonBehindLimited(state, task, at);
}

Verdict VerdictOn(const State& state, const TaskRecord& task, const GpuView& view) {
  Verdict verdict = VerdictOnPart(state, task, view, Part::kFirst);
  if (verdict.fit == Fit::kFits) return verdict;
  Verdict as_other = VerdictOnPart(state, task, view, Part::kOther);
  if (as_other.fit != Fit::kFits) return as_other;
  verdict.reason.text.Edit() += " It could serve as one of the task's other GPUs.";
  return verdict;
}

HostVerdict HostVerdictOn(const State& state, const TaskRecord& task, Time at) {
  const HostNeed need = HostNeedOf(state.config, task.request);
  const HostView view = HostFor(state, task.id, at);
  return {need, view, CheckHost(need, view)};
}

Reason ReasonOf(const State& state, const TaskRecord& task, Time at) {
  const auto held = [&] {
    Reason reason{ReasonCode::kHeld, "Held until it is released."};
    if (const std::optional<Reason> unfit = UnfitNow(state, task))
      reason.text.Edit() += " It cannot start even then: " + *unfit->text;
    return reason;
  };
  if (task.state == TaskState::kSubmitted || task.state == TaskState::kEstimating) {
    if (task.held) return held();
    return {ReasonCode::kEstimating, "Its memory requirement is being estimated."};
  }
  const std::optional<Place> place = state.queue.PlaceOf(task.id);
  if (task.state == TaskState::kRunning && task.attempt->leaves_by)
    return ReasonOfLeaving(state, task);
  if (task.state == TaskState::kLaunching && task.attempt->launched &&
      at - *task.attempt->launched >= kLateStart) {
    return {ReasonCode::kMachineTrouble,
            fmt::format("Has not started in {:.0f} s; its folders or the user database may not "
                        "respond.",
                        base::Seconds(at - *task.attempt->launched))};
  }
  if (task.state != TaskState::kQueued || !place) return task.reason;
  switch (*place) {
    case Place::kHeld:
      return held();
    case Place::kDependency:
      return UnmetDependency(task, state.tasks).value_or(Reason{});
    case Place::kTimed: {
      const std::string until = base::FormatTimeIso(EarliestStart(task));
      if (task.not_before && *task.not_before == EarliestStart(task)) {
        // Removes the task's own output now; PublicText cannot do so once the code is kBackoff.
        return {ReasonCode::kBackoff,
                fmt::format("Waiting until {} before its {} attempt. {}", until,
                            task.attempt->number > 0 ? "next" : "first",
                            PublicText(task.reason.code, *task.reason.text))};
      }
      return {ReasonCode::kBeginTime, fmt::format("May not start before {}.", until)};
    }
    case Place::kOverlooked:
      return state.rules->WhyNotYet(task, at);
    case Place::kArray:
      return {ReasonCode::kArrayLimit,
              fmt::format("At most {} of its array may run at once, and that many are already "
                          "running or next in line.",
                          base::Counted(task.request->array_limit, "task"))};
    case Place::kUnfit:
      return UnfitNow(state, task).value_or(Reason{});
    case Place::kEligible:
      return WithTurns(state, task, ReasonInLine(state, task, at));
  }
  return task.reason;
}

std::size_t AheadOf(const State& state, const TaskRecord& task) {
  std::size_t ahead = 0;
  if (task.queue == QueueKind::kRecovery) {
    const std::set<QueueKey>& line = state.queue.Recovery();
    return static_cast<std::size_t>(
        std::distance(line.begin(), line.lower_bound(state.queue.KeyOf(task))));
  }
  LineUp line = Line(state, LineKindOf(task.request));
  for (auto next = line.Pop(); next && next->task != task.id; next = line.Pop()) ++ahead;
  return ahead;
}

}  // namespace carma::core
