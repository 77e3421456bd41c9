#include "daemon/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "daemon/history_events.h"

namespace carma::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

Result<Unit> Intake::Open() {
  Result<core::TaskId> next = store_.NextId();
  if (!next) return std::unexpected(next.error());
  next_id_ = *next;
  return Unit{};
}

void Intake::Submit(std::vector<task::TaskSpec> specs, const Submitter& submitter, Answer answer) {
  waiting_.push_back({std::move(specs), submitter, std::move(answer)});
}

void Intake::Refuse(Submission& submission, const base::Error& why) {
  submission.answer(base::Wrap(why, "cannot keep the task, nothing was accepted"));
}

void Intake::RefuseAll(const base::Error& why) {
  for (Submission& each : std::exchange(waiting_, {})) Refuse(each, why);
}

// Those that are refused are refused before their first row is written, and take nothing else with
// them; the others share a commit. When the store fails, none has happened.
Result<std::vector<core::Event>> Intake::AcceptAll() {
  if (waiting_.empty()) return std::vector<core::Event>{};
  std::vector<Submission> submissions = std::exchange(waiting_, {});
  std::vector<Result<Submitted>> answers;
  std::vector<core::Event> accepted;
  const core::TaskId id_before = *next_id_;
  Result<Unit> durable = store_.Begin();
  for (std::size_t i = 0; durable && i < submissions.size(); ++i) {
    answers.push_back(Accept(submissions[i], accepted));
    const bool store_failed = !answers.back() && answers.back().error().code == ErrorCode::kIo;
    if (store_failed) durable = std::unexpected(answers.back().error());
  }
  if (durable) {
    durable = store_.Commit();
  } else {
    store_.Rollback();
  }
  if (!durable) {
    next_id_ = id_before;
    base::LogWarn("submission_refused", {{"why", durable.error().message}});
    for (Submission& each : submissions) Refuse(each, durable.error());
    return std::unexpected(durable.error());
  }
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    submissions[i].answer(answers[i]);
    if (answers[i] && !answers[i]->repeated)
      KeepForEstimates(answers[i]->first, std::move(submissions[i]));
  }
  return accepted;
}

Result<Submitted> Intake::Accept(Submission& submission, std::vector<core::Event>& events) {
  if (Result<std::optional<Submitted>> known = Repeated(submission); !known) {
    return std::unexpected(known.error());
  } else if (*known) {
    return **known;
  }
  if (Result<Unit> checked = Check(submission, events.size()); !checked) {
    return std::unexpected(checked.error());
  }
  const std::vector<task::TaskSpec>& specs = submission.specs;
  const std::uint64_t first = core::Number(*next_id_);
  task::SpecWriter writer;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto id = static_cast<core::TaskId>(first + i);
    store::StoredTask stored = NewTask(
        specs[i], writer.Text(specs[i]), id, submission.submitter,
        specs[i].array_index ? std::optional(static_cast<core::TaskId>(first)) : std::nullopt);
    if (Result<Unit> put = store_.PutTask(stored); !put) return std::unexpected(put.error());
    if (Result<Unit> filled = FillDependencies(stored.record.request); !filled)
      return std::unexpected(filled.error());
    events.push_back(core::TaskSubmitted{id, std::move(stored.record.request)});
  }
  const store::StoredEvent told = SubmittedEvent(static_cast<core::TaskId>(first), specs.size(),
                                                 submission.submitter, clock_.Now());
  if (Result<Unit> put = store_.AddEvent(told); !put) return std::unexpected(put.error());
  const Submitter& by = submission.submitter;
  if (!by.request.empty()) {
    Result<Unit> put =
        store_.PutRequest({by.uid, by.request, told.task.value(), specs.size()}, told.when);
    if (!put) return std::unexpected(put.error());
  }
  next_id_ = static_cast<core::TaskId>(first + specs.size());
  return Submitted{static_cast<core::TaskId>(first), specs.size()};
}

Result<std::optional<Submitted>> Intake::Repeated(const Submission& submission) {
  const Submitter& by = submission.submitter;
  if (by.request.empty()) return std::nullopt;
  const Result<std::optional<store::AcceptedRequest>> known =
      store_.FindRequest(by.uid, by.request);
  if (!known) return std::unexpected(known.error());
  if (!*known) return std::nullopt;
  if ((*known)->count != submission.specs.size()) {
    return Fail(ErrorCode::kConflict, fmt::format("request {} was a submission of {} tasks before, "
                                                  "expected a new name for another",
                                                  by.request, (*known)->count));
  }
  return Submitted{(*known)->first, (*known)->count, true};
}

Result<Unit> Intake::CheckRoom(const Submission& submission, std::size_t accepted) const {
  const std::size_t all = core_.Tasks().size() + accepted + submission.specs.size();
  if (all > options_.max_queued_tasks) {
    return Fail(ErrorCode::kConflict,
                fmt::format("the queue would hold more than {} tasks (task.max_queued)",
                            options_.max_queued_tasks));
  }
  // Counted only where it can matter: there may be very many.
  if (all <= options_.max_queued_per_user) return Unit{};
  const auto own = std::ranges::count_if(core_.Tasks(), [&](const auto& each) {
    return each.second.request.uid == submission.submitter.uid;
  });
  if (static_cast<std::size_t>(own) + submission.specs.size() <= options_.max_queued_per_user)
    return Unit{};
  return Fail(ErrorCode::kConflict,
              fmt::format("the queue would hold more than {} tasks of {} "
                          "(task.max_queued_per_user); {} are there",
                          options_.max_queued_per_user, submission.submitter.user, own));
}

Result<Unit> Intake::Check(const Submission& submission, std::size_t accepted) {
  const std::vector<task::TaskSpec>& specs = submission.specs;
  if (specs.empty()) return Fail(ErrorCode::kInvalid, "no task in the submission");
  if (Result<Unit> room = CheckRoom(submission, accepted); !room) return room;
  if (Result<Unit> fits = RefuseWhatNeverFits(submission); !fits) return fits;
  return CheckDependencies(specs);
}

Result<Unit> Intake::RefuseWhatNeverFits(const Submission& submission) const {
  const task::TaskSpec* checked = nullptr;
  for (const task::TaskSpec& spec : submission.specs) {
    // The thousands of tasks of one array ask for the same.
    if (checked != nullptr && checked->gpus == spec.gpus && checked->memory_mib == spec.memory_mib)
      continue;
    checked = &spec;
    std::optional<core::Estimate> estimate;
    if (spec.memory_mib) estimate = core::Estimate{*spec.memory_mib, spec.memory_source};
    if (const std::optional<core::Reason> never =
            core_.NeverFits(task::ToRequest(spec, submission.submitter.uid), estimate)) {
      return Fail(ErrorCode::kConflict, fmt::format("task '{}' can never run here: {}",
                                                    base::Printable(spec.name, 60), never->text));
    }
  }
  return Unit{};
}

Result<Unit> Intake::CheckDependencies(const std::vector<task::TaskSpec>& specs) {
  const std::vector<core::Dependency>* checked = nullptr;
  for (const task::TaskSpec& spec : specs) {
    if (checked != nullptr && *checked == spec.dependencies) continue;
    checked = &spec.dependencies;
    for (const core::Dependency& dependency : spec.dependencies) {
      Result<std::optional<core::TaskState>> state = store_.StateOf(dependency.task);
      if (!state) return std::unexpected(state.error());
      if (*state) continue;
      return Fail(ErrorCode::kNotFound,
                  fmt::format("dependency on task {}, which does not exist", dependency.task));
    }
  }
  return Unit{};
}

Result<Unit> Intake::FillDependencies(core::TaskRequest& request) {
  for (core::Dependency& dependency : request.dependencies) {
    Result<std::optional<core::TaskState>> state = store_.StateOf(dependency.task);
    if (!state) return std::unexpected(state.error());
    if (*state && core::IsFinal(**state)) dependency.known_final = *state;
  }
  return Unit{};
}

store::StoredTask Intake::NewTask(const task::TaskSpec& spec, std::string spec_json,
                                  core::TaskId id, const Submitter& submitter,
                                  std::optional<core::TaskId> array) const {
  store::StoredTask stored;
  stored.record.id = id;
  stored.record.request = task::ToRequest(spec, submitter.uid);
  stored.record.request.array = array;
  if (!stored.record.request.time_limit)
    stored.record.request.time_limit = options_.default_time_limit;
  stored.record.held = spec.held;
  stored.record.submitted = stored.record.queued_since = clock_.Now();
  stored.gid = submitter.gid;
  stored.user = submitter.user;
  stored.name = spec.name;
  stored.spec_json = std::move(spec_json);
  stored.stdout_path = task::ExpandPath(spec.stdout_path, spec, id, submitter.user);
  stored.stderr_path = spec.stderr_path.empty()
                           ? stored.stdout_path
                           : task::ExpandPath(spec.stderr_path, spec, id, submitter.user);
  return stored;
}

// So that a large batch is not read back and parsed again before its first answer is old.
void Intake::KeepForEstimates(core::TaskId first, Submission submission) {
  std::uint64_t id = core::Number(first);
  for (task::TaskSpec& spec : submission.specs) {
    spec.environment.clear();
    new_jobs_.emplace(id, EstimateJob{static_cast<core::TaskId>(id), std::move(spec),
                                      submission.submitter.uid, submission.submitter.gid});
    ++id;
  }
}

Result<EstimateJob> Intake::JobForEstimate(core::TaskId id) {
  if (auto accepted = new_jobs_.extract(core::Number(id))) return std::move(accepted.mapped());
  Result<store::StoredTask> stored = store_.Get(id);
  if (!stored) return std::unexpected(stored.error());
  Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  return EstimateJob{id, *std::move(spec), stored->record.request.uid, stored->gid};
}

}  // namespace carma::daemon
