// The queries of the store.
#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "store/store_impl.h"

namespace carma::store {
namespace {

Result<StoredTask> ReadTask(SQLite::Statement& row) {
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
  reader("spec", spec);
  reader("template", base);
  std::optional<std::string> text = base ? Apply(*base, spec) : std::optional(std::move(spec));
  if (reader.problem() || !text) {
    return Fail(ErrorCode::kCorrupt,
                "task " + std::to_string(core::Number(task.record.id)) + " in the state file: " +
                    reader.problem().value_or("column spec: expected a difference"));
  }
  task.spec_json = *std::move(text);
  return task;
}

Result<std::vector<StoredTask>> ReadTasks(SQLite::Statement& rows) {
  std::vector<StoredTask> tasks;
  while (rows.executeStep()) {
    Result<StoredTask> task = ReadTask(rows);
    if (!task) return std::unexpected(task.error());
    tasks.push_back(*std::move(task));
  }
  return tasks;
}

// The rows of a statement, each filled by `read`, by default from the columns of SelectSql<Row>().
// what: their name in an error.
template <class Row, class Read = void (*)(Reader&, Row&)>
Result<std::vector<Row>> ReadAll(
    SQLite::Statement& statement, const char* what,
    Read read = [](Reader& reader, Row& row) { Table<Row>::Visit(reader, row); }) {
  std::vector<Row> rows;
  while (statement.executeStep()) {
    Reader reader(statement);
    read(reader, rows.emplace_back());
    if (reader.problem()) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", what, *reader.problem()));
    }
  }
  return rows;
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
    return ReadTasks(*rows);
  });
}

Result<std::vector<core::TaskId>> Store::Arrivals() {
  return impl_->Read("reading unfinished submissions", [&]() -> Result<std::vector<core::TaskId>> {
    const Use rows(impl_->Prepared("SELECT first FROM arrival ORDER BY first"));
    return ReadAll<core::TaskId>(*rows, "unfinished submissions",
                                 [](Reader& reader, core::TaskId& id) { reader("first", id); });
  });
}

Result<StoredTask> Store::Get(core::TaskId id) {
  return impl_->Read("reading a task", [&]() -> Result<StoredTask> {
    const Use rows(impl_->Prepared(impl_->select_tasks + impl_->by_id));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    if (rows->executeStep()) return ReadTask(*rows);
    return Fail(ErrorCode::kNotFound, "no task " + std::to_string(core::Number(id)) +
                                          " (carma list --all shows all tasks)");
  });
}

Result<std::optional<core::TaskState>> Store::StateOf(core::TaskId id) {
  using Answer = Result<std::optional<core::TaskState>>;
  return impl_->Read("reading a task's state", [&]() -> Answer {
    const Use rows(impl_->Prepared("SELECT state FROM task " + impl_->by_id));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    if (!rows->executeStep()) return std::nullopt;
    core::TaskState state{};
    Reader reader(*rows);
    reader("state", state);
    if (reader.problem()) return Fail(ErrorCode::kCorrupt, *reader.problem());
    return state;
  });
}

Result<std::vector<StoredTask>> Store::List(const TaskFilter& filter) {
  const Query ids = CandidateIds(filter);
  const std::string sql =
      impl_->select_tasks + "WHERE task.id IN (" + ids.sql +
      (filter.newest_first ? ") ORDER BY task.id DESC LIMIT ?" : ") ORDER BY task.id LIMIT ?");
  return impl_->Read("listing tasks", [&]() -> Result<std::vector<StoredTask>> {
    const Use rows(impl_->Prepared(sql));
    int next = 1;
    for (const auto& argument : ids.arguments) {
      std::visit([&](const auto& value) { rows->bind(next++, value); }, argument);
    }
    rows->bind(next, static_cast<std::int64_t>(std::min<std::uint64_t>(
                         filter.limit, std::numeric_limits<std::int64_t>::max())));
    return ReadTasks(*rows);
  });
}

Result<std::vector<std::pair<core::TaskState, std::int64_t>>> Store::Counts() {
  using Answer = Result<std::vector<std::pair<core::TaskState, std::int64_t>>>;
  return impl_->Read("counting tasks", [&]() -> Answer {
    const Use rows(impl_->Prepared("SELECT state, tasks FROM state_count WHERE tasks > 0"));
    Answer counts = ReadAll<std::pair<core::TaskState, std::int64_t>>(
        *rows, "counts of tasks", [](Reader& reader, auto& count) {
          reader("state", count.first);
          reader("tasks", count.second);
        });
    if (counts) std::sort(counts->begin(), counts->end());
    return counts;
  });
}

Result<std::vector<StoredEvent>> Store::Events(std::optional<core::TaskId> task,
                                               std::optional<std::int64_t> after_sequence,
                                               std::size_t limit) {
  return impl_->Read("reading events", [&]() -> Result<std::vector<StoredEvent>> {
    const Use rows(impl_->Prepared(
        SelectSql<StoredEvent>() + (task ? "INDEXED BY event_task WHERE task=? AND " : "WHERE ") +
        "sequence>? ORDER BY sequence " + (after_sequence ? "" : "DESC ") + "LIMIT ?"));
    Binder bind(*rows);
    if (task) bind.Bind(*task);
    bind.Bind(after_sequence.value_or(0));
    bind.Bind(static_cast<std::int64_t>(
        std::min<std::uint64_t>(limit, std::numeric_limits<std::int64_t>::max())));
    Result<std::vector<StoredEvent>> events = ReadAll<StoredEvent>(*rows, "events");
    if (events && !after_sequence) std::reverse(events->begin(), events->end());
    return events;
  });
}

Result<std::vector<GpuUsage>> Store::Usage(core::Time from, core::Time to) {
  return impl_->Read("reading GPU use", [&]() -> Result<std::vector<GpuUsage>> {
    const Use rows(impl_->Prepared(SelectSql<GpuUsage>() +
                                   "INDEXED BY gpu_usage_to WHERE to_ms>? AND from_ms<? "
                                   "ORDER BY from_ms,gpu_uuid"));
    Binder bind(*rows);
    bind.Bind(from);
    bind.Bind(to);
    return ReadAll<GpuUsage>(*rows, "GPU use");
  });
}

Result<std::vector<Drain>> Store::Drains() {
  return impl_->Read("reading drains", [&]() -> Result<std::vector<Drain>> {
    const Use rows(impl_->Prepared(SelectSql<Drain>() + "ORDER BY gpu_uuid,by_rule"));
    return ReadAll<Drain>(*rows, "drains");
  });
}

Result<std::optional<Closing>> Store::ServerClosing() {
  return impl_->Read(
      "reading whether the server is closed", [&]() -> Result<std::optional<Closing>> {
        const Use rows(impl_->Prepared(SelectSql<Closing>()));
        Result<std::vector<Closing>> all = ReadAll<Closing>(*rows, "whether the server is closed");
        if (!all) return std::unexpected(all.error());
        if (all->empty()) return std::nullopt;
        return std::move(all->front());
      });
}

Result<std::vector<ReservationRow>> Store::ReservationBook() {
  return impl_->Read("reading reservations", [&]() -> Result<std::vector<ReservationRow>> {
    const Use rows(impl_->Prepared(SelectSql<ReservationRow>() + "ORDER BY id"));
    return ReadAll<ReservationRow>(*rows, "reservations");
  });
}

Result<std::vector<JobReturnRow>> Store::JobReturns() {
  return impl_->Read("reading jobs' returns", [&]() -> Result<std::vector<JobReturnRow>> {
    const Use rows(impl_->Prepared(SelectSql<JobReturnRow>() + "ORDER BY task"));
    return ReadAll<JobReturnRow>(*rows, "jobs' returns");
  });
}

Result<bool> Store::JobReturns(core::TaskId id) {
  return impl_->Read("reading a job's return", [&]() -> Result<bool> {
    const Use row(impl_->Prepared("SELECT 1 FROM job_return WHERE task=?"));
    row->bind(1, static_cast<std::int64_t>(core::Number(id)));
    return row->executeStep();
  });
}

Result<std::optional<Forecast>> Store::ForecastOf(core::TaskId id) {
  return impl_->Read("reading a forecast", [&]() -> Result<std::optional<Forecast>> {
    const Use rows(impl_->Prepared(SelectSql<Forecast>() + "WHERE id=?"));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    Result<std::vector<Forecast>> found = ReadAll<Forecast>(*rows, "forecast");
    if (!found) return std::unexpected(found.error());
    if (found->empty()) return std::nullopt;
    return std::move(found->front());
  });
}

Result<std::vector<EndedAttempt>> Store::Attempts(core::Time ended_after) {
  return impl_->Read("reading attempts", [&]() -> Result<std::vector<EndedAttempt>> {
    const Use rows(
        impl_->Prepared(SelectSql<EndedAttempt>() + "WHERE ended_ms >= ? ORDER BY ended_ms,task"));
    rows->bind(1, base::ToMs(ended_after));
    return ReadAll<EndedAttempt>(*rows, "attempts");
  });
}

Result<std::vector<Notice>> Store::WaitingNotices(std::size_t limit) {
  return impl_->Read("reading notices", [&]() -> Result<std::vector<Notice>> {
    const Use rows(impl_->Prepared(SelectSql<Notice>() +
                                   "INDEXED BY notice_waiting WHERE state='waiting' "
                                   "ORDER BY next_ms,id LIMIT ?"));
    rows->bind(1, static_cast<std::int64_t>(limit));
    return ReadAll<Notice>(*rows, "notices");
  });
}

Result<std::vector<Notice>> Store::NoticesOf(core::TaskId id) {
  return impl_->Read("reading notices", [&]() -> Result<std::vector<Notice>> {
    const Use rows(impl_->Prepared(SelectSql<Notice>() + "WHERE task=? ORDER BY id"));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    return ReadAll<Notice>(*rows, "notices");
  });
}

Result<std::int64_t> Store::CountNotices(std::uint32_t uid, core::Time made_after) {
  return impl_->Read("counting notices", [&]() -> Result<std::int64_t> {
    const Use count(
        impl_->Prepared("SELECT count(*) FROM notice INDEXED BY notice_made WHERE made_ms>=? AND "
                        "uid=? AND state<>'dropped'"));
    Binder bind(*count);
    bind.Bind(made_after);
    bind.Bind(uid);
    return count->executeStep() ? count->getColumn(0).getInt64() : 0;
  });
}

Result<std::vector<task::Observation>> Store::Observations() {
  return impl_->Read("reading measured peaks", [&]() -> Result<std::vector<task::Observation>> {
    const Use rows(impl_->Prepared(SelectSql<task::Observation>() + "ORDER BY id"));
    return ReadAll<task::Observation>(*rows, "measured peaks");
  });
}

}  // namespace carma::store
