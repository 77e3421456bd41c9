#include "daemon/engine/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/engine/history_events.h"

namespace carma::daemon {

namespace {

// A task's weight, as limited by EngineOptions::turn_share: one, plus one for each dependency
// (which must be looked up), plus one for every kBytesPerTask bytes of its description.
constexpr std::size_t kBytesPerTask = 8192;
// Maximum number of remembered output files; if it is exceeded, all are forgotten.
constexpr std::size_t kMostOutputs = 20'000;

std::size_t Weight(const TaskList& tasks, std::size_t i) {
  return 1 + tasks.Like(i).dependencies.size() + tasks.BytesOf(i) / kBytesPerTask;
}

std::size_t OutputKey(const store::StoredTask& task, const std::string& path) {
  return std::hash<std::string>{}(task.user + ':' + path);
}

core::TaskId Behind(core::TaskId first, std::size_t tasks) {
  return static_cast<core::TaskId>(core::Number(first) + tasks);
}

}  // namespace

Result<Unit> Intake::Open() {
  next_id_ = CARMA_TRY(store_.NextId());
  // These submissions were never accepted, because carmad was killed before storing the last piece.
  given_up_ = CARMA_TRY(store_.Arrivals());
  return Unit{};
}

void Intake::Submit(TaskList tasks, const Submitter& submitter, Answer answer) {
  Submission submission{std::move(tasks), submitter, std::move(answer)};
  if (IsLarge(submission)) {
    large_.push_back({.submission = std::move(submission)});
  } else {
    waiting_.push_back(std::move(submission));
  }
}

bool Intake::IsLarge(const Submission& submission) const {
  return PieceEnd(submission.tasks, 0) < submission.tasks.size();
}

bool Intake::WantsNotices(const Submission& submission, std::size_t index) const {
  return wants_notices_ && !submission.tasks.Like(index).notify.empty();
}

// A piece has at least one task, however large the task is.
std::size_t Intake::PieceEnd(const TaskList& tasks, std::size_t begin) const {
  std::size_t end = begin;
  std::size_t weight = 0;
  while (end < tasks.size()) {
    weight += Weight(tasks, end);
    if (weight > options_.turn_share && end > begin) break;
    ++end;
  }
  return end;
}

void Intake::Refuse(Submission& submission, const base::Error& why) {
  submission.answer(base::Wrap(why, "nothing was accepted, because the tasks cannot be stored"));
}

void Intake::RefuseAll(const base::Error& why) {
  for (Submission& each : std::exchange(waiting_, {})) Refuse(each, why);
  while (!large_.empty()) (void)GiveUpArrival(why);
}

bool Intake::HasMore() const {
  return !waiting_.empty() || !large_.empty() || !untold_.empty() ||
         (!given_up_.empty() && !cannot_take_back_);
}

Result<Unit> Intake::AcceptShare(std::vector<core::Event>& events) {
  queued_of_.clear();
  Result<Unit> ok = AcceptSmall(events);
  if (ok && !large_.empty()) ok = AcceptPiece();
  if (ok && large_.empty()) TakeBack();
  if (!ok) base::LogWarn("submission_refused", {{"why", ok.error().message}});
  const Result<Unit> told = Tell(events);
  return ok ? told : ok;
}

// ---- submissions that fit into one turn ----

// Invalid submissions are refused before any row is written, because all valid ones are stored in a
// single commit. If that fails, none is accepted.
Result<Unit> Intake::AcceptSmall(std::vector<core::Event>& events) {
  std::vector<Submission> submissions;
  std::size_t weight = 0;
  while (!waiting_.empty() && weight < options_.turn_share) {
    const TaskList& tasks = waiting_.front().tasks;
    for (std::size_t i = 0; i < tasks.size(); ++i) weight += Weight(tasks, i);
    submissions.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (submissions.empty()) return Unit{};
  std::vector<Result<Submitted>> answers;
  std::vector<Accepted> accepted(submissions.size());
  const core::TaskId id_before = *next_id_;
  const bool later = std::ranges::all_of(submissions, [](const Submission& each) {
    return each.submitter.durability == store::Durability::kLater;
  });
  Result<Unit> durable = store_.Begin(later ? store::Durability::kLater : store::Durability::kNow);
  for (std::size_t i = 0; durable && i < submissions.size(); ++i) {
    answers.push_back(Accept(submissions[i], accepted[i].news));
    const bool store_failed = !answers.back() && answers.back().error().code == ErrorCode::kIo;
    if (store_failed) durable = std::unexpected(answers.back().error());
  }
  if (durable) {
    durable = store_.Commit();
  } else {
    store_.Rollback();
  }
  accepted_now_ = 0;
  accepted_of_.clear();
  if (!durable) {
    next_id_ = id_before;
    for (Submission& each : submissions) Refuse(each, durable.error());
    return durable;
  }
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    Submission& each = submissions[i];
    each.answer(answers[i]);
    for (std::size_t k = 0; k < accepted[i].news.size(); ++k) {
      if (WantsNotices(each, k)) wants_notices_(accepted[i].news[k]);
      KeepForEstimate(accepted[i].news[k].id, each, k);
    }
    if (WaitsForUntold(accepted[i].news)) {
      untold_.push_back(std::move(accepted[i]));
    } else {
      accepted_ += accepted[i].news.size();
      std::ranges::move(accepted[i].news, std::back_inserter(events));
    }
  }
  return Unit{};
}

// A task must not reach the core before its dependencies, because the core treats unknown tasks as
// non-existent.
bool Intake::WaitsForUntold(const std::vector<core::TaskSubmitted>& news) const {
  if (untold_.empty()) return false;
  return std::ranges::any_of(news, [this](const core::TaskSubmitted& each) {
    return std::ranges::any_of(each.request->dependencies,
                               [this](const auto& other) { return IsUntold(other.task); });
  });
}

Result<Submitted> Intake::Accept(const Submission& submission,
                                 std::vector<core::TaskSubmitted>& news) {
  if (std::optional<Submitted> known = CARMA_TRY(Repeated(submission))) return *std::move(known);
  const std::size_t count = submission.tasks.size();
  if (count == 0) return Invalid("the submission has no tasks");
  CARMA_TRY(
      CheckRoom(submission.tasks.size(), submission.submitter.uid, submission.submitter.user));
  std::string warning = CARMA_TRY(Check(submission, 0, count));
  const core::TaskId first = *next_id_;
  const base::Time now = clock_.Now();
  task::SpecWriter writer;
  for (std::size_t i = 0; i < count; ++i) {
    core::TaskSubmitted put = CARMA_TRY(Put(submission, i, first, now, writer, warning));
    CARMA_TRY(FillDependencies(put.request));
    news.push_back(std::move(put));
  }
  CARMA_TRY(PutAsWhole(submission, first, now));
  next_id_ = Behind(first, count);
  accepted_now_ += count;
  accepted_of_[submission.submitter.uid] += count;
  if (const auto counted = queued_of_.find(submission.submitter.uid); counted != queued_of_.end())
    counted->second += count;
  return Submitted{.first = first, .count = count, .warning = std::move(warning)};
}

// ---- larger submissions ----

Result<Unit> Intake::AcceptPiece() {
  Arrival& arrival = large_.front();
  const std::size_t count = arrival.submission.tasks.size();
  if (arrival.checked < count) {
    const Result<std::optional<Submitted>> known = CheckPiece(arrival);
    if (!known) return GiveUpArrival(known.error());
    if (*known) {
      arrival.submission.answer(**known);
      large_.pop_front();
    }
    return Unit{};
  }
  if (const Result<Unit> put = PutPiece(arrival); !put) return GiveUpArrival(put.error());
  if (arrival.put < count) return Unit{};
  for (const std::size_t i : arrival.notified) wants_notices_(arrival.news[i]);
  untold_.push_back({std::move(arrival.news)});
  arrival.submission.answer(
      Submitted{.first = arrival.first, .count = count, .warning = std::move(arrival.warning)});
  large_.pop_front();
  return Unit{};
}

Result<std::optional<Submitted>> Intake::CheckPiece(Arrival& arrival) {
  const Submission& submission = arrival.submission;
  if (arrival.checked == 0) {
    Result<std::optional<Submitted>> known = Repeated(submission);
    if (!known || *known) return known;
    CARMA_TRY(
        CheckRoom(submission.tasks.size(), submission.submitter.uid, submission.submitter.user));
  }
  const std::size_t end = PieceEnd(submission.tasks, arrival.checked);
  std::string warning = CARMA_TRY(Check(submission, arrival.checked, end));
  if (arrival.warning.empty()) arrival.warning = std::move(warning);
  arrival.checked = end;
  return std::nullopt;
}

Result<Unit> Intake::PutPiece(Arrival& arrival) {
  Submission& submission = arrival.submission;
  const std::size_t count = submission.tasks.size();
  const std::size_t end = PieceEnd(submission.tasks, arrival.put);
  const bool first_piece = arrival.put == 0;
  if (first_piece) {
    arrival.first = *next_id_;
    arrival.submitted = clock_.Now();
  }
  // Only the last piece must become durable immediately, which makes all earlier pieces durable
  // too.
  Result<Unit> ok =
      store_.Begin(end == count ? store::Durability::kNow : store::Durability::kLater);
  if (ok && first_piece) ok = store_.BeginArrival(arrival.first, count);
  task::SpecWriter writer;
  std::vector<core::TaskSubmitted> news;
  for (std::size_t i = arrival.put; ok && i < end; ++i) {
    Result<core::TaskSubmitted> put =
        Put(submission, i, arrival.first, arrival.submitted, writer, arrival.warning);
    if (put) {
      news.push_back(*std::move(put));
    } else {
      ok = std::unexpected(put.error());
    }
  }
  if (ok && end == count) {
    ok = PutAsWhole(submission, arrival.first, arrival.submitted);
    if (ok) ok = store_.FinishArrival(arrival.first);
  }
  if (ok) {
    ok = store_.Commit();
  } else {
    store_.Rollback();
  }
  if (!ok) return ok;
  if (first_piece) next_id_ = Behind(arrival.first, count);
  for (std::size_t i = arrival.put; i < end; ++i) {
    if (WantsNotices(submission, i)) arrival.notified.push_back(i);
    KeepForEstimate(news[i - arrival.put].id, submission, i);
  }
  std::ranges::move(news, std::back_inserter(arrival.news));
  arrival.put = end;
  return Unit{};
}

Result<Unit> Intake::GiveUpArrival(const base::Error& why) {
  Arrival arrival = std::move(large_.front());
  large_.pop_front();
  if (arrival.put > 0) given_up_.push_back(arrival.first);
  for (const core::TaskSubmitted& each : arrival.news) new_jobs_.erase(core::Number(each.id));
  if (why.code != ErrorCode::kIo) {
    arrival.submission.answer(std::unexpected(why));
    return Unit{};
  }
  Refuse(arrival.submission, why);
  return std::unexpected(why);
}

void Intake::TakeBack() {
  if (given_up_.empty()) return;
  Result<Unit> ok = store_.Begin(store::Durability::kLater);
  if (ok) {
    const Result<bool> all = store_.DropArrival(given_up_.back(), options_.turn_share);
    ok = store_.Commit();
    if (ok && all && *all) given_up_.pop_back();
  }
  cannot_take_back_ = !ok;
}

// ---- events for the core ----

bool Intake::IsUntold(core::TaskId id) const {
  return std::ranges::any_of(untold_, [id](const Accepted& each) {
    return id >= each.news[each.told].id && id <= each.news.back().id;
  });
}

// Sends stored tasks to the core. Looks up their dependencies again, because some may have ended in
// the meantime.
Result<Unit> Intake::Tell(std::vector<core::Event>& events) {
  std::size_t weight = 0;
  while (!untold_.empty() && weight < options_.turn_share) {
    Accepted& accepted = untold_.front();
    core::TaskSubmitted& news = accepted.news[accepted.told];
    CARMA_TRY(FillDependencies(news.request));
    weight += 1 + news.request->dependencies.size();
    events.emplace_back(std::move(news));
    ++accepted_;
    if (++accepted.told == accepted.news.size()) untold_.pop_front();
  }
  return Unit{};
}

std::size_t Intake::OnTheWay(std::optional<std::uint32_t> uid) const {
  std::size_t count = 0;
  for (const Accepted& each : untold_) {
    if (!uid || each.news.back().request->uid == *uid) count += each.news.size() - each.told;
  }
  // Counts only the first large submission, and only once its checks have begun.
  if (!large_.empty() && large_.front().checked > 0) {
    const Submission& submission = large_.front().submission;
    if (!uid || submission.submitter.uid == *uid) count += submission.tasks.size();
  }
  return count;
}

// ---- rows of the store ----

void Intake::FillTimeLimit(core::TaskRequest& request) const {
  if (!request.time_limit) request.time_limit = options_.default_time_limit;
  if (const std::optional<core::Duration> longest = core_.LongestAllowed(request))
    request.time_limit = std::min(request.time_limit.value_or(*longest), *longest);
}

Result<core::TaskSubmitted> Intake::Put(const Submission& submission, std::size_t index,
                                        core::TaskId first, base::Time submitted,
                                        task::SpecWriter& writer, std::string& warning) {
  const task::TaskSpec spec = submission.tasks.At(index);
  const Submitter& submitter = submission.submitter;
  store::StoredTask stored;
  core::TaskRecord& record = stored.record;
  record.id = Behind(first, index);
  core::TaskRequest request = task::ToRequest(spec, submitter.uid, submitter.user);
  if (spec.array_index) request.array = first;
  FillTimeLimit(request);
  record.request = Shared(std::move(request));
  record.held = spec.held;
  record.submitted = record.queued_since = submitted;
  stored.gid = submitter.gid;
  stored.user = submitter.user;
  stored.name = spec.name;
  stored.spec_json = writer.Text(spec);
  const task::PathWords words{.id = record.id,
                              .array = record.request->array.value_or(record.id),
                              .user = submitter.user,
                              .host = base::ShortHostName(),
                              .books = task::BooksWord(store_.BooksOf(record.id).id)};
  stored.stdout_path = task::ExpandPath(spec.stdout_path, spec, words);
  stored.stderr_path = spec.stderr_path.empty() ? stored.stdout_path
                                                : task::ExpandPath(spec.stderr_path, spec, words);
  WarnOfSharedOutput(stored, spec, first, warning);
  CARMA_TRY(store_.PutTask(stored));
  return core::TaskSubmitted{record.id, std::move(record.request), submitter.task};
}

void Intake::NoteOutputs(const store::StoredTask& task) {
  if (task.spec_json.contains("%j")) return;
  for (const std::string* path : {&task.stdout_path, &task.stderr_path})
    outputs_.insert_or_assign(OutputKey(task, *path), task.record.id);
}

void Intake::WarnOfSharedOutput(const store::StoredTask& task, const task::TaskSpec& spec,
                                core::TaskId first, std::string& warning) {
  if (outputs_.size() > kMostOutputs) outputs_.clear();
  for (const auto& [pattern, path] : {std::pair(&spec.stdout_path, &task.stdout_path),
                                      std::pair(&spec.stderr_path, &task.stderr_path)}) {
    // File names with %j, which most tasks use, are different for each task and need no lookup.
    if (pattern->empty() || pattern->contains("%j") || pattern->starts_with("/dev/")) continue;
    const auto [at, added] = outputs_.try_emplace(OutputKey(task, *path), task.record.id);
    const core::TaskId other = std::exchange(at->second, task.record.id);
    if (spec.append_output || added || other >= first || !warning.empty()) continue;
    const auto state = store_.StateOf(other);
    if (!state || !*state || core::IsFinal(**state)) continue;
    const auto stored = store_.Get(other);
    if (!stored || stored->user != task.user) continue;
    if (stored->stdout_path == *path || stored->stderr_path == *path)
      warning = fmt::format("tasks {} and {} both write to {}; use %j in the file name",
                            core::Number(other), core::Number(task.record.id),
                            base::Printable(*path, 400));
  }
}

Result<Unit> Intake::PutAsWhole(const Submission& submission, core::TaskId first,
                                base::Time submitted) {
  const Submitter& by = submission.submitter;
  const std::size_t count = submission.tasks.size();
  CARMA_TRY(store_.AddEvent(SubmittedEvent(first, count, by, submitted)));
  if (by.request.empty()) return Unit{};
  // Another submission with the same name may have been accepted while this one was being stored in
  // pieces.
  const std::optional<Submitted> known = CARMA_TRY(Repeated(submission));
  if (known)
    return Conflict("request name '{}' was used for another submission in the meantime",
                    by.request);
  return store_.PutRequest({by.uid, by.request, first, count}, submitted);
}

// Keeps the task's description, so that a large batch does not have to be read and parsed again for
// its estimates. A task without GPUs needs no estimate.
void Intake::KeepForEstimate(core::TaskId id, Submission& submission, std::size_t index) {
  if (submission.tasks.Like(index).gpus == 0) return;
  new_jobs_.emplace(core::Number(id),
                    EstimateJob{id, submission.tasks.TakeBare(index), submission.submitter.uid,
                                submission.submitter.gid, submission.submitter.user});
}

Result<EstimateJob> Intake::JobForEstimate(core::TaskId id) {
  if (auto accepted = new_jobs_.extract(core::Number(id))) return std::move(accepted.mapped());
  store::StoredTask stored = CARMA_TRY(store_.Get(id));
  task::TaskSpec spec = CARMA_TRY(task::SpecFromJsonText(stored.spec_json));
  return EstimateJob{id, std::move(spec), stored.record.request->uid, stored.gid, stored.user};
}

}  // namespace carma::daemon
