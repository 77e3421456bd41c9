// Intake's checks of submissions and edits.

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/signal_name.h"
#include "base/text.h"
#include "base/try.h"
#include "core/queue/dependencies.h"
#include "core/values/reason_line.h"
#include "daemon/engine/intake.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

Result<Unit> CheckSignal(const task::TaskSpec& spec) {
  if (!spec.checkpoint_signal || base::IsHandledSignal(*spec.checkpoint_signal)) return Unit{};
  return Invalid(
      "checkpoint_signal: expected a signal that a program can handle, such as USR1, got {}",
      *spec.checkpoint_signal);
}

// The signal must be due after the task has started. Otherwise, the task would get it at every
// start, and if it then saved and exited, it would be requeued forever without making progress.
Result<Unit> CheckSignalTime(const core::TaskRequest& request) {
  if (!request.signal_before || !request.time_limit || *request.signal_before < *request.time_limit)
    return Unit{};
  return Invalid(
      "--signal is due {} before the time limit, but the limit is {}; give fewer seconds "
      "(--signal SIGNAL@SECONDS) or a longer --time",
      base::FormatSpan(*request.signal_before), base::FormatSpan(*request.time_limit));
}

}  // namespace

Result<Unit> FillKnownEnds(store::Store& store, std::vector<core::Dependency>& dependencies) {
  for (core::Dependency& dependency : dependencies) {
    const std::optional<core::TaskState> state = CARMA_TRY(store.StateOf(dependency.task));
    if (!state)
      return NotFound("cannot depend on task {}: no such task (see carma list --all)",
                      dependency.task);
    if (core::IsFinal(*state)) dependency.known_final = state;
  }
  return Unit{};
}

Result<std::optional<Submitted>> Intake::Repeated(const Submission& submission) {
  const Submitter& by = submission.submitter;
  if (by.request.empty()) return std::nullopt;
  const std::optional<store::AcceptedRequest> known =
      CARMA_TRY(store_.FindRequest(by.uid, by.request));
  if (!known) return std::nullopt;
  if (known->count != submission.tasks.size()) {
    return Conflict("request name '{}' was already used for a submission of {}", by.request,
                    base::Counted(static_cast<std::int64_t>(known->count), "task"));
  }
  const Result<store::StoredTask> first = store_.Get(known->first);
  const bool was_lease = first && task::LeaseSpecIn(first->spec_json);
  if (was_lease != submission.tasks.Like(0).lease.has_value()) {
    return Conflict("request name '{}' was already used for task {}, which is {}a lease",
                    by.request, known->first, was_lease ? "" : "not ");
  }
  return Submitted{known->first, known->count, true};
}

Result<Unit> Intake::CheckRoom(std::size_t wanted, std::uint32_t uid, std::string_view user) {
  const std::size_t all = core_.Tasks().size() + OnTheWay(std::nullopt) + accepted_now_ + wanted;
  if (all > options_.max_queued_tasks) {
    return Conflict("the queue would hold more than {} tasks (task.max_queued)",
                    options_.max_queued_tasks);
  }
  // Counts the user's tasks only if the limit could be exceeded, because counting many tasks is
  // slow.
  if (all <= options_.max_queued_per_user) return Unit{};
  const std::size_t own = QueuedOf(uid);
  if (own + wanted <= options_.max_queued_per_user) return Unit{};
  return Conflict("user {} may have at most {} (task.max_queued_per_user) and already has {}", user,
                  base::Counted(options_.max_queued_per_user, "queued task"), own);
}

std::size_t Intake::QueuedOf(std::uint32_t uid) {
  const auto [at, added] = queued_of_.try_emplace(uid);
  if (added) {
    at->second =
        OnTheWay(uid) +
        static_cast<std::size_t>(std::ranges::count_if(
            core_.Tasks(), [uid](const auto& each) { return each.second.request->uid == uid; }));
  }
  return at->second;
}

Result<std::string> Intake::Check(const Submission& submission, std::size_t begin,
                                  std::size_t end) {
  if (begin == 0) CARMA_TRY(CheckQueueLimits(submission.tasks, submission.submitter));
  CARMA_TRY(CheckEntitlements(submission, begin, end));
  CARMA_TRY(RefuseWhatNeverFits(submission, begin, end));
  const std::string never = CARMA_TRY(CheckDependencies(submission.tasks, begin, end));
  return never.empty() ? "" : never + "; it is cancelled";
}

Result<Unit> Intake::CheckReturn(const core::TaskRequest& request, const std::string& name,
                                 std::size_t returning) {
  queued_of_.erase(request.uid);
  CARMA_TRY(CheckRoom(returning + 1, request.uid, request.user));
  CARMA_TRY(core::MayName(core_.config(), request));
  return RefuseBeyondLimits(request, name, OnTheWay(request.uid) + returning + 1);
}

Result<Unit> Intake::RefuseBeyondLimits(const core::TaskRequest& request, const std::string& name,
                                        std::size_t more, const core::TaskRequest* counted,
                                        std::span<const core::AlikeTasks> beside) const {
  const std::optional<core::LimitHit> hit = core_.LimitOnSubmission(request, more, counted, beside);
  if (!hit) return Unit{};
  return Invalid("task '{}' is refused: {}", base::Printable(name, 60), core::TextOf(*hit));
}

Result<Unit> Intake::CheckQueueLimits(const TaskList& tasks, const Submitter& by) const {
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::size_t>> alike;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const task::TaskSpec& spec = tasks.Like(i);
    const auto key = std::pair(spec.account.value_or(""), spec.qos.value_or(""));
    ++alike.try_emplace(key, i, 0).first->second.second;
  }
  const auto now = accepted_of_.find(by.uid);
  const std::size_t coming = OnTheWay(by.uid) + (now == accepted_of_.end() ? 0 : now->second);
  std::vector<core::AlikeTasks> before;
  for (const auto& [key, group] : alike) {
    const auto& [first, count] = group;
    const task::TaskSpec& spec = tasks.Like(first);
    const core::TaskRequest request = task::ToRequest(spec, by.uid, by.user);
    CARMA_TRY(RefuseBeyondLimits(request, spec.name, coming + count, nullptr, before));
    before.push_back({request, count});
  }
  return Unit{};
}

Result<Unit> Intake::CheckEntitlements(const Submission& submission, std::size_t begin,
                                       std::size_t end) const {
  const Submitter& by = submission.submitter;
  std::optional<core::TaskRequest> checked;
  for (std::size_t i = begin; i < end; ++i) {
    const task::TaskSpec& spec = submission.tasks.Like(i);
    core::TaskRequest request = task::ToRequest(spec, by.uid, by.user);
    request.dependencies.clear();
    if (checked == request) continue;  // thousands of tasks of one array have equal requests
    CARMA_TRY(core::MayName(core_.config(), request));
    CARMA_TRY(CheckSignal(spec));
    CARMA_TRY(RefuseBeyondLimits(request, spec.name, 0));
    checked = request;
    FillTimeLimit(request);
    CARMA_TRY(CheckSignalTime(request));
  }
  return Unit{};
}

Result<Unit> Intake::RefuseWhatNeverFits(const Submission& submission, std::size_t begin,
                                         std::size_t end) const {
  const task::TaskSpec* checked = nullptr;
  for (std::size_t i = begin; i < end; ++i) {
    const task::TaskSpec& spec = submission.tasks.Like(i);
    // Equal requests, such as those of an array's tasks, are checked only once.
    if (checked != nullptr && checked->gpus == spec.gpus &&
        checked->memory_mib == spec.memory_mib && checked->cpus == spec.cpus &&
        checked->host_memory_mib == spec.host_memory_mib && checked->own_cpus == spec.own_cpus &&
        core::ChooseAlike(*checked, spec))
      continue;
    checked = &spec;
    std::optional<core::Estimate> estimate;
    if (spec.memory_mib) estimate = core::Estimate{*spec.memory_mib, spec.memory_source};
    if (const std::optional<core::Reason> never =
            core_.NeverFits(task::ToRequest(spec, submission.submitter.uid), estimate)) {
      return Conflict(core::CanNeverRun(spec.name, *never->text));
    }
  }
  return Unit{};
}

Result<std::string> Intake::CheckDependencies(const TaskList& tasks, std::size_t begin,
                                              std::size_t end) {
  std::string never;
  const std::vector<core::Dependency>* checked = nullptr;
  for (std::size_t i = begin; i < end; ++i) {
    const task::TaskSpec& spec = tasks.Like(i);
    if (checked != nullptr && *checked == spec.dependencies) continue;
    checked = &spec.dependencies;
    std::vector<core::Dependency> dependencies = spec.dependencies;
    CARMA_TRY(FillKnownEnds(store_, dependencies));
    if (!never.empty()) continue;
    if (const auto reason = core::NeverMetByEnds(std::move(dependencies)))
      never = core::CanNeverRun(spec.name, *reason->text);
  }
  return never;
}

base::CopyOnWrite<core::TaskRequest> Intake::Shared(core::TaskRequest request) {
  base::CopyOnWrite<core::TaskRequest> shared = std::move(request);
  if (!shared.ShareWith(last_request_)) last_request_ = shared;
  return shared;
}

Result<Unit> Intake::FillDependencies(base::CopyOnWrite<core::TaskRequest>& request) {
  if (request->dependencies.empty()) return Unit{};
  for (core::Dependency& dependency : request.Edit().dependencies) {
    std::optional<core::TaskState> state = CARMA_TRY(store_.StateOf(dependency.task));
    if (state && core::IsFinal(*state)) dependency.known_final = state;
  }
  return Unit{};
}

Result<base::CopyOnWrite<core::TaskRequest>> Intake::CheckEdit(const core::TaskRecord& record,
                                                               const task::TaskSpec& was,
                                                               const task::TaskSpec& wanted) {
  const core::TaskRequest& before = record.request;
  core::TaskRequest request = task::ToRequest(wanted, before.uid, before.user);
  request.array = before.array;
  const Submission as_new{TaskList({wanted}), {before.uid, 0, before.user, "", ""}, nullptr};
  // Checks the account and the limits only if the edit affects them, because they may be stricter
  // now than at submission. For example, an edit of the comment must not give a running task a new
  // time limit.
  const auto payer = [](const auto& task) { return std::tie(task.account, task.qos); };
  const auto size = [](const auto& task) {
    return std::tie(task.gpus, task.memory_mib, task.cpus, task.host_memory_mib, task.time_limit);
  };
  const bool same_payer = payer(wanted) == payer(was);
  const bool same_size = same_payer && size(wanted) == size(was);
  if (!same_payer) CARMA_TRY(core::MayName(core_.config(), request));
  if (!same_size) CARMA_TRY(RefuseBeyondLimits(request, wanted.name, 1, &before));
  CARMA_TRY(CheckSignal(wanted));
  CARMA_TRY(RefuseWhatNeverFits(as_new, 0, 1));
  if (wanted.dependencies != before.dependencies) {
    std::string never = CARMA_TRY(CheckDependencies(as_new.tasks, 0, 1));
    if (!never.empty()) return Conflict(std::move(never));
    for (core::Dependency& each : request.dependencies) {
      // A task can depend only on older tasks, so two tasks cannot wait for each other.
      if (each.task < record.id) continue;
      return NotFound("task {1} cannot depend on task {0}: a task can depend only on older tasks",
                      each.task, record.id);
    }
  }
  if (same_size) {
    request.time_limit = before.time_limit;
  } else {
    FillTimeLimit(request);
  }
  if (request.time_limit != before.time_limit || request.signal_before != before.signal_before)
    CARMA_TRY(CheckSignalTime(request));
  // Catches a wrong unit: "12" means twelve minutes, but the user might have meant hours.
  const core::Duration ran = clock_.Now() - record.attempt->started.value_or(clock_.Now());
  if (core::HoldsGpus(record.state) && request.time_limit && ran >= *request.time_limit &&
      request.time_limit != before.time_limit) {
    return Conflict(
        "task {0} has already run for {1}, so a time limit of {2} would end it immediately "
        "(to end it, use carma cancel {0})",
        record.id, base::FormatSpan(ran), base::FormatSpan(*request.time_limit));
  }
  base::CopyOnWrite<core::TaskRequest> edited = std::move(request);
  if (wanted.dependencies != before.dependencies) CARMA_TRY(FillDependencies(edited));
  return edited;
}

}  // namespace carma::daemon
