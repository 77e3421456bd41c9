// The store's queries.
#include <algorithm>
#include <utility>
#include <variant>

#include "base/try.h"
#include "store/store_impl.h"
#include "task/describe/spec.h"

namespace carma::store {
namespace {

// described: whether the row includes the description.
Result<StoredTask> ReadTask(SQLite::Statement& row, bool described = true) {
  StoredTask task;
  Reader reader(row);
  reader("id", task.record.id);
  VisitTask(reader, task);
  core::TaskRecord& record = task.record;
  record.reason.text.Trim();
  record.estimate.Trim();
  record.profile.Trim();
  record.seen.Trim();
  record.attempt.Trim();
  record.exit.Trim();
  std::string spec;
  std::optional<std::string> base;
  reader("gid", task.gid);
  reader("stdout_path", task.stdout_path);
  reader("stderr_path", task.stderr_path);
  if (described) {
    reader("spec", spec);
    reader("template", base);
  }
  std::optional<std::string> text = base ? Apply(*base, spec) : std::optional(std::move(spec));
  if (reader.problem() || !text) {
    return Fail(ErrorCode::kCorrupt,
                "task " + std::to_string(core::Number(task.record.id)) + " in the state file: " +
                    reader.problem().value_or("column spec: expected a difference"));
  }
  task.spec_json = *std::move(text);
  return task;
}

// The only row of a result. Empty if the result has no rows.
template <class Row>
Result<std::optional<Row>> Only(Result<std::vector<Row>> rows) {
  if (!rows) return std::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return std::move(rows->front());
}

}  // namespace

Result<core::TaskId> Store::NextId() {
  return core::TaskId{static_cast<std::uint64_t>(impl_->last_task) + 1};
}

BooksId Store::BooksOf(core::TaskId id) const {
  auto after = impl_->books.upper_bound(static_cast<std::int64_t>(core::Number(id)));
  return after == impl_->books.begin() ? after->second : std::prev(after)->second;
}

Result<std::vector<StoredTask>> Store::Unfinished() {
  return impl_->Read("reading unfinished tasks", [&]() -> Result<std::vector<StoredTask>> {
    const Use rows(impl_->Prepared(impl_->select_tasks +
                                   "WHERE task.id IN (SELECT id FROM task INDEXED BY task_state "
                                   "WHERE state IN (" +
                                   QuotedStates(false) + ")) AND " + std::string(kArrived) +
                                   " ORDER BY task.id"));
    std::vector<StoredTask> tasks;
    while (rows->executeStep()) tasks.push_back(CARMA_TRY(ReadTask(*rows)));
    return tasks;
  });
}

Result<std::vector<core::TaskId>> Store::Arrivals() {
  const auto read = [](Reader& reader, core::TaskId& id) { reader("first", id); };
  return impl_->Rows<core::TaskId>("unfinished submissions",
                                   "SELECT first FROM arrival ORDER BY first", read);
}

Result<StoredTask> Store::Get(core::TaskId id) {
  return impl_->Read("reading a task", [&]() -> Result<StoredTask> {
    const Use rows(impl_->Prepared(impl_->select_tasks + impl_->by_id));
    Binder(*rows).Bind(id);
    if (rows->executeStep()) return ReadTask(*rows);
    return NotFound("no task " + std::to_string(core::Number(id)) +
                    " (carma list --all shows all tasks)");
  });
}

Result<std::optional<core::TaskState>> Store::StateOf(core::TaskId id) {
  const auto read = [](Reader& reader, core::TaskState& state) { reader("state", state); };
  return Only(impl_->Rows<core::TaskState>("a task's state",
                                           "SELECT state FROM task " + impl_->by_id, read, id));
}

Result<std::optional<TaskOwner>> Store::OwnerOf(core::TaskId id) {
  const auto read = [](Reader& reader, TaskOwner& owner) {
    reader("uid", owner.uid);
    reader("user", owner.user);
  };
  return Only(impl_->Rows<TaskOwner>("a task's owner", "SELECT uid,user FROM task " + impl_->by_id,
                                     read, id));
}

Result<std::vector<StoredTask>> Store::List(const TaskFilter& filter, bool* cut) {
  constexpr std::size_t kMostStatements = 200;  // each combination of filters needs one
  if (impl_->statements.size() >= kMostStatements) impl_->statements.clear();
  const Query ids = CandidateIds(filter);
  const std::string sql =
      impl_->select_tasks + "WHERE task.id IN (" + ids.sql +
      (filter.newest_first ? ") ORDER BY task.id DESC LIMIT ?" : ") ORDER BY task.id LIMIT ?");
  return impl_->Read("listing tasks", [&]() -> Result<std::vector<StoredTask>> {
    const Use rows(impl_->Prepared(sql));
    Binder bind(*rows);
    for (const auto& argument : ids.arguments)
      std::visit([&](const auto& value) { bind.Bind(value); }, argument);
    bind.Bind(filter.limit);
    std::vector<StoredTask> tasks;
    std::size_t bytes = 0;
    const auto full = [&bytes] { return bytes > kMostListedBytes; };
    while ((cut == nullptr || !full()) && rows->executeStep()) {
      tasks.push_back(CARMA_TRY(ReadTask(*rows, !full())));
      bytes += tasks.back().spec_json.size();
    }
    if (cut != nullptr) *cut = full();
    return tasks;
  });
}

Result<std::vector<std::pair<core::TaskState, std::int64_t>>> Store::Counts() {
  using Count = std::pair<core::TaskState, std::int64_t>;
  const auto read = [](Reader& reader, Count& count) {
    reader("state", count.first);
    reader("tasks", count.second);
  };
  auto counts = impl_->Rows<Count>("counts of tasks",
                                   "SELECT state, tasks FROM state_count WHERE tasks > 0", read);
  if (counts) std::ranges::sort(*counts);
  return counts;
}

Result<std::vector<std::pair<core::TaskId, core::TaskState>>> Store::StatesOfArray(
    core::TaskId first) {
  using Member = std::pair<core::TaskId, core::TaskState>;
  const auto read = [](Reader& reader, Member& member) {
    reader("id", member.first);
    reader("state", member.second);
  };
  // The tasks of an array have consecutive numbers, so array_id needs no index.
  return impl_->Rows<Member>("tasks of an array",
                             "SELECT id, state FROM task WHERE id>=?1 AND id<?1+?2 AND array_id=?1",
                             read, first, static_cast<std::int64_t>(task::kMaxArrayTasks));
}

Result<std::vector<StoredEvent>> Store::Events(std::optional<core::TaskId> task,
                                               std::optional<std::int64_t> after_sequence,
                                               std::size_t limit) {
  const std::string rest =
      std::string(task ? "INDEXED BY event_task WHERE task=?2 AND " : "WHERE ") +
      "sequence>?1 ORDER BY sequence " + (after_sequence ? "" : "DESC ") + "LIMIT ?3";
  Result<std::vector<StoredEvent>> events =
      impl_->All<StoredEvent>("events", rest, after_sequence.value_or(0), task, limit);
  if (events && !after_sequence) std::ranges::reverse(*events);
  return events;
}

Result<std::vector<GpuUsage>> Store::Usage(core::Time from, core::Time to) {
  return impl_->All<GpuUsage>("GPU usage",
                              "INDEXED BY gpu_usage_to WHERE to_ms>? AND from_ms<? "
                              "ORDER BY from_ms,gpu_uuid",
                              from, to);
}

Result<std::vector<Drain>> Store::Drains() {
  return impl_->All<Drain>("drains", "ORDER BY gpu_uuid,by_rule");
}

Result<std::optional<Closing>> Store::ServerClosing() {
  return Only(impl_->All<Closing>("whether the server is closed", ""));
}

Result<std::vector<ReservationRow>> Store::ReservationBook() {
  return impl_->All<ReservationRow>("reservations", "ORDER BY id");
}

Result<std::vector<JobReturnRow>> Store::JobReturns() {
  return impl_->All<JobReturnRow>("jobs' returns", "ORDER BY task");
}

Result<bool> Store::JobReturns(core::TaskId id) {
  return impl_->Read("reading a job's return", [&]() -> Result<bool> {
    const Use row(impl_->Prepared("SELECT 1 FROM job_return WHERE task=?"));
    Binder(*row).Bind(id);
    return row->executeStep();
  });
}

Result<std::optional<Forecast>> Store::ForecastOf(core::TaskId id) {
  return Only(impl_->All<Forecast>("a forecast", "WHERE id=?", id));
}

Result<std::vector<EndedAttempt>> Store::Attempts(core::Time from, core::Time to) {
  return impl_->All<EndedAttempt>(
      "attempts", "WHERE ended_ms >= ? AND ended_ms < ? ORDER BY ended_ms,task", from, to);
}

Result<std::vector<Notice>> Store::WaitingNotices(std::size_t limit) {
  return impl_->All<Notice>("notices",
                            "INDEXED BY notice_waiting WHERE state='waiting' "
                            "ORDER BY next_ms,id LIMIT ?",
                            limit);
}

Result<std::vector<Notice>> Store::NoticesOf(core::TaskId id) {
  return impl_->All<Notice>("notices", "WHERE task=? ORDER BY id", id);
}

Result<std::int64_t> Store::CountNotices(std::uint32_t uid, core::Time made_after) {
  const auto counts = CARMA_TRY(impl_->Rows<std::int64_t>(
      "notices",
      "SELECT count(*) FROM notice INDEXED BY notice_made WHERE made_ms>=? AND uid=? AND "
      "state<>'dropped'",
      [](Reader& reader, std::int64_t& count) { reader("count", count); }, made_after, uid));
  return counts.front();
}

Result<std::optional<core::Time>> Store::LastWritten() {
  const auto newest = CARMA_TRY(impl_->Rows<std::optional<core::Time>>(
      "when carmad last wrote",
      "SELECT max(written) FROM ("
      "SELECT (SELECT when_ms FROM event ORDER BY sequence DESC LIMIT 1) AS written UNION ALL "
      "SELECT (SELECT to_ms FROM gpu_usage ORDER BY id DESC LIMIT 1))",
      [](Reader& reader, std::optional<core::Time>& time) { reader("written", time); }));
  return newest.front();
}

Result<std::vector<task::Observation>> Store::Observations() {
  return impl_->All<task::Observation>("measured peaks", "ORDER BY id");
}

}  // namespace carma::store
