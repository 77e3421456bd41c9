#include "store/history.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>

#include "base/try.h"
#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/tables.h"

namespace carma::store {

namespace {

// The rows are read in order of id. The "+" keeps SQLite from using the index on times, which would
// force it to sort the rows.
std::string InSpan() {
  return "WHERE +submitted_ms >= ? AND +submitted_ms <= ? AND " + std::string(kArrived) + " ";
}

// A condition that selects the newest tasks of a time span. Parameters: the start and the end of
// the span, and the maximum number of tasks (-1: no limit).
std::string Newest() {
  return "WHERE id IN (SELECT id FROM task " + InSpan() + "ORDER BY id DESC LIMIT ?) ";
}

constexpr std::int64_t kAll = -1;  // SQLite's LIMIT -1: no limit

}  // namespace

struct History::Impl {
  // Calls `read_row` for each row until it fails or returns false.
  template <class ReadRow, class... Values>
  Result<Unit> Walk(const char* doing, const std::string& sql, ReadRow read_row,
                    const Values&... values) {
    try {
      SQLite::Statement rows(db, sql);
      Binder bind(rows);
      (bind.Bind(values), ...);
      while (rows.executeStep()) {
        Reader reader(rows);
        const bool more = read_row(reader);
        if (reader.problem())
          return Fail(ErrorCode::kCorrupt, std::string(doing) + ": " + *reader.problem());
        if (!more) break;
      }
      return Unit{};
    } catch (const SQLite::Exception& exception) {
      return std::unexpected(FromSqlite(exception, doing));
    }
  }

  // Reads rows with all their columns. rest: the part of the query after the table's name.
  template <class Row, class... Values>
  Result<Unit> Each(const char* doing, const std::string& rest, const TakeRow<Row>& take,
                    const Values&... values) {
    const auto read = [&](Reader& reader) {
      Row row;
      Table<Row>::Visit(reader, row);
      return !reader.problem() && take(row);
    };
    return Walk(doing, SelectSql<Row>() + rest, read, values...);
  }

  explicit Impl(const std::string& path)
      : db(path, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, kBusyTimeoutMs) {
    db.exec("PRAGMA trusted_schema=OFF");
    db.exec("BEGIN");
    // SQLite takes the snapshot at the first read, not at BEGIN.
    db.execAndGet("SELECT count(*) FROM counter");
  }
  SQLite::Database db;
};

History::History() = default;
History::~History() = default;

Result<std::unique_ptr<History>> History::Open(const std::string& state_dir) {
  const std::string path = state_dir + "/" + std::string(kFileName);
  try {
    std::unique_ptr<History> history(new History());
    history->impl_ = std::make_unique<Impl>(path);
    return history;
  } catch (const SQLite::Exception& exception) {
    return std::unexpected(FromSqlite(exception, "opening " + path));
  }
}

Result<std::int64_t> History::CountTasks(const Span& span) {
  std::int64_t count = 0;
  CARMA_TRY(impl_->Walk(
      "counting tasks", "SELECT count(*) FROM task " + InSpan(),
      [&](Reader& reader) {
        reader("count", count);
        return true;
      },
      span.submitted_from, span.submitted_to));
  return span.newest ? std::min(count, *span.newest) : count;
}

Result<Unit> History::Tasks(const Span& span, const TakeRow<StoredTask>& take) {
  return impl_->Walk(
      "reading tasks",
      "SELECT id," + JoinColumns(TaskColumns()) + " FROM task " + Newest() + "ORDER BY id",
      [&](Reader& reader) {
        StoredTask task;
        reader("id", task.record.id);
        VisitTask(reader, task);
        return !reader.problem() && take(task);
      },
      span.submitted_from, span.submitted_to, span.newest.value_or(kAll));
}

Result<Unit> History::Events(core::TaskId first, core::TaskId last,
                             const TakeRow<StoredEvent>& take) {
  return impl_->Each("reading events",
                     "INDEXED BY event_task WHERE task >= ? AND task <= ? ORDER BY task,sequence",
                     take, first, last);
}

Result<Unit> History::Attempts(core::Time from, core::Time to, const TakeRow<EndedAttempt>& take) {
  return impl_->Each(
      "reading attempts",
      "INDEXED BY attempt_ended WHERE ended_ms >= ? AND launched_ms < ? ORDER BY ended_ms,task",
      take, from, to);
}

Result<Unit> History::Usage(core::Time from, core::Time to, const TakeRow<GpuUsage>& take) {
  return impl_->Each(
      "reading GPU usage",
      "INDEXED BY gpu_usage_to WHERE to_ms > ? AND from_ms < ? ORDER BY to_ms,gpu_uuid", take, from,
      to);
}

Result<Unit> History::LineWaits(core::Time from, core::Time to, const TakeRow<LineWait>& take) {
  return impl_->Each(
      "reading the wait reasons for the head of the queue",
      "INDEXED BY line_wait_to WHERE to_ms > ? AND from_ms < ? ORDER BY to_ms,reason", take, from,
      to);
}

}  // namespace carma::store
