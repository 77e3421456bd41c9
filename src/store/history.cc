#include "store/history.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>

#include "store/open.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/tables.h"

namespace carma::store {

namespace {

// The columns are in the order in which VisitTask() reads them.
std::string SelectTasks() {
  return "SELECT id," + JoinColumns(TaskColumns()) + " FROM task ";
}

// "+" keeps SQLite from using the index of the times, which is not in the order of the ids.
std::string InSpan() {
  return "WHERE +submitted_ms >= ? AND +submitted_ms <= ? AND " + std::string(kArrived) + " ";
}

// Ids of the tasks in a span of time; three parameters.
std::string Newest() {
  return "WHERE id IN (SELECT id FROM task " + InSpan() + "ORDER BY id DESC LIMIT ?) ";
}

constexpr std::int64_t kAll = -1;  // a LIMIT that is none

void BindSpan(Binder& bind, const History::Span& span) {
  bind.Bind(span.submitted_from);
  bind.Bind(span.submitted_to);
}

}  // namespace

struct History::Impl {
  // Calls `read_row` for each row until it fails or returns that it has enough.
  template <class ReadRow>
  Result<Unit> Each(const char* doing, const std::string& sql,
                    const std::function<void(Binder&)>& bind, ReadRow read_row) {
    try {
      SQLite::Statement rows(db, sql);
      Binder binder(rows);
      bind(binder);
      while (rows.executeStep()) {
        Reader reader(rows);
        const bool more = read_row(reader);
        if (reader.problem()) {
          return Fail(ErrorCode::kCorrupt, std::string(doing) + ": " + *reader.problem());
        }
        if (!more) break;
      }
      return Unit{};
    } catch (const SQLite::Exception& exception) {
      return std::unexpected(FromSqlite(exception, doing));
    }
  }

  explicit Impl(const std::string& path) : db(path, SQLite::OPEN_READONLY, kBusyTimeoutMs) {
    db.exec("PRAGMA trusted_schema=OFF");
    db.exec("BEGIN");
    // The view is fixed by the first read, not by BEGIN.
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
  const Result<Unit> read = impl_->Each(
      "counting tasks", "SELECT count(*) FROM task " + InSpan(),
      [&](Binder& bind) { BindSpan(bind, span); },
      [&](Reader& reader) {
        reader("count", count);
        return true;
      });
  if (!read) return std::unexpected(read.error());
  return span.newest ? std::min(count, *span.newest) : count;
}

Result<Unit> History::Tasks(const Span& span, const TakeRow<StoredTask>& take) {
  return impl_->Each(
      "reading tasks", SelectTasks() + Newest() + "ORDER BY id",
      [&](Binder& bind) {
        BindSpan(bind, span);
        bind.Bind(span.newest.value_or(kAll));
      },
      [&](Reader& reader) {
        StoredTask task;
        reader("id", task.record.id);
        VisitTask(reader, task);
        return !reader.problem() && take(task);
      });
}

Result<Unit> History::Events(core::TaskId first, core::TaskId last,
                             const TakeRow<StoredEvent>& take) {
  // The index of the tasks ends with the rows' numbers: they come in order without sorting.
  return impl_->Each(
      "reading events",
      SelectSql<StoredEvent>() +
          "INDEXED BY event_task WHERE task >= ? AND task <= ? ORDER BY task,sequence",
      [&](Binder& bind) {
        bind.Bind(first);
        bind.Bind(last);
      },
      [&](Reader& reader) {
        StoredEvent event;
        Table<StoredEvent>::Visit(reader, event);
        return !reader.problem() && take(event);
      });
}

Result<Unit> History::Attempts(core::Time from, core::Time to, const TakeRow<EndedAttempt>& take) {
  return impl_->Each(
      "reading attempts",
      SelectSql<EndedAttempt>() +
          "INDEXED BY attempt_ended WHERE ended_ms >= ? AND launched_ms < ? "
          "ORDER BY ended_ms,task",
      [&](Binder& bind) {
        bind.Bind(from);
        bind.Bind(to);
      },
      [&](Reader& reader) {
        EndedAttempt attempt;
        Table<EndedAttempt>::Visit(reader, attempt);
        return !reader.problem() && take(attempt);
      });
}

Result<Unit> History::Usage(core::Time from, core::Time to, const TakeRow<GpuUsage>& take) {
  return impl_->Each(
      "reading GPU use",
      SelectSql<GpuUsage>() +
          "INDEXED BY gpu_usage_to WHERE to_ms > ? AND from_ms < ? "
          "ORDER BY to_ms,gpu_uuid",
      [&](Binder& bind) {
        bind.Bind(from);
        bind.Bind(to);
      },
      [&](Reader& reader) {
        GpuUsage usage;
        Table<GpuUsage>::Visit(reader, usage);
        return !reader.problem() && take(usage);
      });
}

Result<Unit> History::LineWaits(core::Time from, core::Time to, const TakeRow<LineWait>& take) {
  return impl_->Each(
      "reading what the head of the queue waited for",
      SelectSql<LineWait>() +
          "INDEXED BY line_wait_to WHERE to_ms > ? AND from_ms < ? "
          "ORDER BY to_ms,reason",
      [&](Binder& bind) {
        bind.Bind(from);
        bind.Bind(to);
      },
      [&](Reader& reader) {
        LineWait wait;
        Table<LineWait>::Visit(reader, wait);
        return !reader.problem() && take(wait);
      });
}

}  // namespace carma::store
