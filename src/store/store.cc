#include "store/store.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "store/batch.h"
#include "store/delta.h"
#include "store/lock.h"
#include "store/open.h"
#include "store/place.h"
#include "store/query.h"
#include "store/rows.h"

namespace carma::store {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

namespace {

// A cached statement for one use: whatever happens, it is reset at the end, so that no read
// transaction stays open and keeps the log from being checkpointed.
class Use {
 public:
  explicit Use(SQLite::Statement& statement) : statement_(statement) {}
  ~Use() { statement_.tryReset(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  SQLite::Statement& operator*() const { return statement_; }
  SQLite::Statement* operator->() const { return &statement_; }

 private:
  SQLite::Statement& statement_;
};

std::string JoinColumns(const std::vector<std::string>& names, std::string_view before,
                        std::string_view after, std::string_view separator) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += separator;
    text += std::string(before) + name + std::string(after);
  }
  return text;
}

std::vector<std::string> TaskColumns() {
  ColumnNames names;
  StoredTask task;
  VisitTask(names, task);
  return std::move(names.names);
}

std::vector<std::string> RecordColumns() {
  ColumnNames names;
  core::TaskRecord record;
  std::vector<std::string> uuids;
  VisitRecord(names, record, uuids);
  return std::move(names.names);
}

std::vector<std::string> ObservationColumns() {
  ColumnNames names;
  task::Observation observation;
  VisitObservation(names, observation);
  return std::move(names.names);
}

std::vector<std::string> NoticeColumns() {
  ColumnNames names;
  const Notice notice;
  VisitNotice(names, notice);
  return std::move(names.names);
}

// All columns but the number, which the store gives.
class NewNotice {
 public:
  explicit NewNotice(SQLite::Statement& statement) : binder_(statement) {}
  template <class Value>
  void operator()(const char* name, const Value& value) {
    if (name != std::string_view("id")) binder_(name, value);
  }

 private:
  Binder binder_;
};

std::string InsertAttemptSql() {
  ColumnNames columns;
  const EndedAttempt attempt;
  VisitAttempt(columns, attempt);
  return "INSERT OR REPLACE INTO attempt(" + AttemptColumns() + ") VALUES(" +
         JoinColumns(std::vector<std::string>(columns.names.size(), "?"), "", "", ",") + ")";
}

std::string InsertTaskSql() {
  const std::vector<std::string> names = TaskColumns();
  std::string marks;
  for (std::size_t i = 0; i < names.size(); ++i) marks += ",?";
  std::string updates;
  for (const std::string& name : names) {
    updates += (updates.empty() ? "" : ",") + name + "=excluded." + name;
  }
  return "INSERT INTO task(id," + JoinColumns(names, "", "", ",") + ") VALUES(?" + marks +
         ") ON CONFLICT(id) DO UPDATE SET " + updates;
}

// Rows of `task` with their description, in the order in which ReadTask() takes them.
std::string SelectTasksSql() {
  return "SELECT task.id," + JoinColumns(TaskColumns(), "task.", "", ",") +
         ",gid,stdout_path,stderr_path,spec,template.text FROM task "
         "JOIN description ON description.id=task.id "
         "LEFT JOIN template ON template.id=description.template ";
}

constexpr const char* kPutDescription =
    "INSERT INTO description(id,gid,template,spec,stdout_path,stderr_path) VALUES(?,?,?,?,?,?) "
    "ON CONFLICT(id) DO UPDATE SET gid=excluded.gid,template=excluded.template,spec=excluded.spec,"
    "stdout_path=excluded.stdout_path,stderr_path=excluded.stderr_path";

std::string QuotedStates(bool final) {
  std::string list;
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    const auto state = static_cast<core::TaskState>(i);
    if (core::IsFinal(state) != final) continue;
    list += (list.empty() ? "'" : ",'") + std::string(core::TaskStateName(state)) + "'";
  }
  return list;
}

Result<StoredTask> ReadTask(SQLite::Statement& row) {
  StoredTask task;
  Reader reader(row);
  reader("id", task.record.id);
  VisitTask(reader, task);
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

// The rows of a statement, each filled by `read`. what: names them in an error.
template <class Row, class Read>
Result<std::vector<Row>> ReadAll(SQLite::Statement& statement, const char* what, Read read) {
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

Result<std::vector<Notice>> ReadNotices(SQLite::Statement& rows) {
  return ReadAll<Notice>(rows, "notices",
                         [](Reader& reader, Notice& notice) { VisitNotice(reader, notice); });
}

// What description.spec holds, and the template it is a difference from.
struct PackedSpec {
  std::optional<std::int64_t> template_id;
  std::string text;
};

}  // namespace

struct Store::Impl {
  enum class Transaction {
    kNone,
    kOpen,
    kFailed,  // rolled back after an error; waits for Commit or Rollback
  };

  explicit Impl(StateLock held) : lock(std::move(held)) {}
  ~Impl() {
    statements.clear();
    if (!db) return;
    // Leaves one file behind; if that fails (full disk) the log keeps everything.
    db->tryExec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  SQLite::Statement& Prepared(const std::string& sql) {
    std::unique_ptr<SQLite::Statement>& statement = statements[sql];
    if (!statement) statement = std::make_unique<SQLite::Statement>(*db, sql);
    return *statement;
  }

  void UndoBatch() {
    if (sqlite3_get_autocommit(db->getHandle()) == 0) db->tryExec("ROLLBACK");
    last_task = durable_task;
    last_event = durable_event;
    templates.clear();  // a new one of this batch is gone
  }

  // A user's descriptions are kept as differences from that user's last one that was too different.
  PackedSpec Pack(const std::string& user, const std::string& spec) {
    constexpr std::size_t kWorthIt = 256;
    constexpr std::size_t kMostUsers = 64;  // of one day; each keeps one text in memory
    if (spec.size() < kWorthIt) return {std::nullopt, spec};
    const auto known = templates.find(user);
    if (known != templates.end()) {
      std::string difference = known->second.base.Difference(spec);
      if (difference.size() <= spec.size() / 2) return {known->second.id, std::move(difference)};
      templates.erase(known);
    }
    if (templates.size() >= kMostUsers) templates.clear();
    const Use put(Prepared("INSERT INTO template(text) VALUES(?)"));
    put->bind(1, spec);
    put->exec();
    const Known& added = templates.try_emplace(user, db->getLastInsertRowid(), spec).first->second;
    return {added.id, added.base.Difference(spec)};
  }

  // Runs a part of the open batch; any failure of SQLite undoes the whole batch.
  template <class Body>
  auto Change(const char* doing, Body body) -> decltype(body()) {
    CARMA_CHECK(batch != Transaction::kNone, "the store was changed outside a batch");
    if (batch == Transaction::kFailed) {
      return Fail(ErrorCode::kIo, std::string(doing) + ": the batch was rolled back");
    }
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      base::Error error = FromSqlite(exception, doing);
      UndoBatch();
      batch = Transaction::kFailed;
      return std::unexpected(std::move(error));
    }
  }

  template <class Body>
  auto Read(const char* doing, Body body) -> decltype(body()) {
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      return std::unexpected(FromSqlite(exception, doing));
    }
  }

  // SQLite takes this only between transactions.
  void SetDurability(Durability wanted) {
    if (wanted == durability) return;
    db->exec(wanted == Durability::kNow ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    durability = wanted;
  }

  std::int64_t Counter(const char* name) {
    const Use get(Prepared("SELECT value FROM counter WHERE name=?"));
    get->bind(1, name);
    if (!get->executeStep()) throw SQLite::Exception("counter is missing", SQLITE_CORRUPT);
    return get->getColumn(0).getInt64();
  }
  void PutCounter(const char* name, std::int64_t value) {
    const Use put(Prepared("UPDATE counter SET value=? WHERE name=?"));
    put->bind(1, value);
    put->bind(2, name);
    put->exec();
  }
  void LoadCounters() {
    last_task = durable_task = Counter("task");
    last_event = durable_event = Counter("event");
  }
  // Once per batch, so that numbering costs nothing per row.
  void SaveCounters() {
    if (last_task != durable_task) PutCounter("task", last_task);
    if (last_event != durable_event) PutCounter("event", last_event);
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

  struct Known {
    Known(std::int64_t row, std::string text) : id(row), base(std::move(text)) {}
    std::int64_t id;
    Template base;
  };

  Result<Unit> InPlace() const {
    if (Result<Unit> file = place.Check(); !file) return file;
    return log_place.Check();
  }

  StateLock lock;  // released last
  FilePlace place, log_place;
  std::unique_ptr<SQLite::Database> db;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> statements;
  std::map<std::string, Known> templates;  // by user
  Transaction batch = Transaction::kNone;
  Durability durability = Durability::kNow;  // as OpenForWork set it
  // Highest numbers ever given: as on disk, and with the open batch.
  std::int64_t durable_task = 0, last_task = 0;
  std::int64_t durable_event = 0, last_event = 0;

  const std::string put_task = InsertTaskSql();
  const std::string put_record =
      "UPDATE task SET " + JoinColumns(RecordColumns(), "", "=?", ",") + " WHERE id=?";
  const std::string select_tasks = SelectTasksSql();
  const std::string by_id = "WHERE task.id=? AND " + std::string(kArrived);
  const std::string put_attempt = InsertAttemptSql();
  const std::string put_observation =
      "INSERT INTO observation(" + JoinColumns(ObservationColumns(), "", "", ",") + ") VALUES(" +
      JoinColumns(std::vector<std::string>(ObservationColumns().size(), "?"), "", "", ",") + ")";
};

Store::Store() = default;
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const std::string& state_dir) {
  Result<StateLock> lock = StateLock::Take(state_dir);
  if (!lock) return std::unexpected(lock.error());
  const std::string path = state_dir + "/" + std::string(kFileName);
  Result<Unit> sound = Inspect(path);
  if (!sound && sound.error().code != ErrorCode::kNotFound) return std::unexpected(sound.error());

  std::unique_ptr<Store> store(new Store());
  store->impl_ = std::make_unique<Impl>(*std::move(lock));
  Impl& impl = *store->impl_;
  Result<std::unique_ptr<SQLite::Database>> db = OpenForWork(path);
  if (!db) return std::unexpected(db.error());
  impl.db = *std::move(db);
  const Result<Unit> loaded = impl.Read("reading the counters", [&]() -> Result<Unit> {
    impl.LoadCounters();
    return Unit{};
  });
  if (!loaded) return std::unexpected(loaded.error());
  impl.place = FilePlace(path);
  impl.log_place = FilePlace(path + "-wal");
  return store;
}

Result<Unit> Store::InPlace() const {
  return impl_->InPlace();
}

Result<Unit> Store::Begin(Durability durability) {
  CARMA_CHECK(impl_->batch == Impl::Transaction::kNone, "a batch of the store is already open");
  if (Result<Unit> in_place = impl_->InPlace(); !in_place) return in_place;
  return impl_->Read("beginning a batch", [&]() -> Result<Unit> {
    impl_->SetDurability(durability);
    impl_->db->exec("BEGIN IMMEDIATE");
    impl_->batch = Impl::Transaction::kOpen;
    return Unit{};
  });
}

Result<Unit> Store::Commit() {
  const Result<Unit> done = impl_->Change("committing a batch", [&]() -> Result<Unit> {
    impl_->SaveCounters();
    impl_->db->exec("COMMIT");
    impl_->durable_task = impl_->last_task;
    impl_->durable_event = impl_->last_event;
    return Unit{};
  });
  impl_->batch = Impl::Transaction::kNone;
  return done;
}

void Store::Rollback() {
  if (impl_->batch == Impl::Transaction::kOpen) impl_->UndoBatch();
  impl_->batch = Impl::Transaction::kNone;
}

Result<Unit> Store::Apply(const Batch& batch, Durability durability) {
  if (batch.Empty()) return Unit{};
  Result<Unit> ok = Begin(durability);
  const auto each = [&](const auto& rows, const auto& keep) {
    for (auto row = rows.begin(); ok && row != rows.end(); ++row) ok = keep(*row);
  };
  each(batch.records,
       [&](const auto& row) { return PutRecord(row.second.record, row.second.gpu_uuids); });
  each(batch.events, [&](const StoredEvent& event) { return AddEvent(event); });
  each(batch.usage, [&](const GpuUsage& usage) { return AddUsage(usage); });
  each(batch.forecasts, [&](const Forecast& forecast) { return PutForecast(forecast); });
  each(batch.observations, [&](const task::Observation& seen) { return AddObservation(seen); });
  each(batch.attempts, [&](const EndedAttempt& attempt) { return PutAttempt(attempt); });
  each(batch.descriptions, [&](const EditedDescription& edited) { return PutDescription(edited); });
  each(batch.notices, [&](const Notice& notice) { return AddNotice(notice); });
  each(batch.notice_results, [&](const Notice& notice) { return PutNoticeResult(notice); });
  if (ok && batch.forget_calibration) ok = ForgetCalibration();
  each(batch.drains, [&](const auto& row) {
    const auto& [gpu_uuid, by_rule] = row.first;
    return row.second ? PutDrain({gpu_uuid, *row.second, by_rule}) : DropDrain(gpu_uuid, by_rule);
  });
  if (ok) return Commit();
  Rollback();
  return ok;
}

Result<Unit> Store::PutTask(const StoredTask& task) {
  const std::uint64_t id = core::Number(task.record.id);
  if (id == 0 || id > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Fail(ErrorCode::kInvalid, "task id " + std::to_string(id) + ": expected 1 to 2^63 - 1");
  }
  return impl_->Change("storing a task", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(impl_->put_task));
    Binder bind(*put);
    bind.Bind(task.record.id);
    VisitTask(bind, task);
    put->exec();
    const PackedSpec spec = impl_->Pack(task.user, task.spec_json);
    const Use describe(impl_->Prepared(kPutDescription));
    Binder detail(*describe);
    detail.Bind(task.record.id);
    detail.Bind(task.gid);
    detail.Bind(spec.template_id);
    detail.Bind(spec.text);
    detail.Bind(task.stdout_path);
    detail.Bind(task.stderr_path);
    describe->exec();
    impl_->last_task = std::max(impl_->last_task, static_cast<std::int64_t>(id));
    return Unit{};
  });
}

Result<Unit> Store::PutRecord(const core::TaskRecord& record,
                              const std::vector<std::string>& gpu_uuids) {
  return impl_->Change("storing a task's state", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(impl_->put_record));
    Binder bind(*put);
    VisitRecord(bind, record, gpu_uuids);
    bind.Bind(record.id);
    if (put->exec() == 0) {
      return Fail(ErrorCode::kNotFound,
                  "task " + std::to_string(core::Number(record.id)) + " is not in the store");
    }
    return Unit{};
  });
}

Result<Unit> Store::AddEvent(const StoredEvent& event) {
  return impl_->Change("storing an event", [&]() -> Result<Unit> {
    StoredEvent numbered = event;
    numbered.sequence = impl_->last_event + 1;
    const Use put(impl_->Prepared(
        "INSERT INTO event(sequence,when_ms,kind,task,gpu_uuid,what,text) VALUES(?,?,?,?,?,?,?)"));
    Binder bind(*put);
    VisitEvent(bind, numbered);
    put->exec();
    ++impl_->last_event;
    return Unit{};
  });
}

Result<Unit> Store::AddUsage(const GpuUsage& usage) {
  return impl_->Change("storing GPU use", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared("INSERT INTO gpu_usage(" + UsageColumns() +
                                  ") VALUES(?,?,?,?,?,?,?,?,?,?)"));
    Binder bind(*put);
    VisitUsage(bind, usage);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutDrain(const Drain& drain) {
  return impl_->Change("storing a drain", [&]() -> Result<Unit> {
    const Use put(
        impl_->Prepared("INSERT OR REPLACE INTO drain(gpu_uuid,by_rule,why) VALUES(?,?,?)"));
    Binder bind(*put);
    VisitDrain(bind, drain);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::DropDrain(const std::string& gpu_uuid, bool by_rule) {
  return impl_->Change("dropping a drain", [&]() -> Result<Unit> {
    const Use drop(impl_->Prepared("DELETE FROM drain WHERE gpu_uuid=? AND by_rule=?"));
    Binder bind(*drop);
    bind.Bind(gpu_uuid);
    bind.Bind(by_rule);
    drop->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutForecast(const Forecast& forecast) {
  return impl_->Change("storing a forecast", [&]() -> Result<Unit> {
    const Use put(
        impl_->Prepared("INSERT OR REPLACE INTO forecast(id,model,context_mib,rest_mib,remarks) "
                        "VALUES(?,?,?,?,?)"));
    Binder bind(*put);
    bind.Bind(forecast.task);
    bind.Bind(forecast.model);
    bind("context_mib", "rest_mib", forecast.formula);
    bind.Bind(forecast.remarks);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::AddObservation(const task::Observation& observation) {
  return impl_->Change("storing a measured peak", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(impl_->put_observation));
    Binder bind(*put);
    VisitObservation(bind, observation);
    put->exec();
    const Use repeated(
        impl_->Prepared("DELETE FROM observation WHERE signature=? AND id NOT IN (SELECT id FROM "
                        "observation WHERE signature=? ORDER BY id DESC LIMIT ?)"));
    repeated->bind(1, observation.signature);
    repeated->bind(2, observation.signature);
    repeated->bind(3, task::kRunsPerSignature);
    repeated->exec();
    const Use oldest(
        impl_->Prepared("DELETE FROM observation WHERE id <= (SELECT id FROM observation "
                        "ORDER BY id DESC LIMIT 1 OFFSET ?)"));
    oldest->bind(1, task::kMaxObservations);
    oldest->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutAttempt(const EndedAttempt& attempt) {
  return impl_->Change("storing what an attempt took", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(impl_->put_attempt));
    Binder bind(*put);
    VisitAttempt(bind, attempt);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutDescription(const EditedDescription& edited) {
  return impl_->Change("storing a description", [&]() -> Result<Unit> {
    const Use name(impl_->Prepared("UPDATE task SET name=? WHERE id=? RETURNING user"));
    Binder bind(*name);
    bind.Bind(edited.name);
    bind.Bind(edited.task);
    if (!name->executeStep())
      return Fail(ErrorCode::kNotFound, "no task " + std::to_string(core::Number(edited.task)));
    const std::string user = name->getColumn(0).getString();
    const PackedSpec spec = impl_->Pack(user, edited.spec_json);
    const Use put(impl_->Prepared("UPDATE description SET template=?,spec=? WHERE id=?"));
    Binder detail(*put);
    detail.Bind(spec.template_id);
    detail.Bind(spec.text);
    detail.Bind(edited.task);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::AddNotice(const Notice& notice) {
  return impl_->Change("storing a notice", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared("INSERT INTO notice(" +
                                  JoinColumns(NoticeColumns(), "", "", ",") +
                                  ") VALUES(NULL,?,?,?,?,?,?,?,?,?,?)"));
    NewNotice bind(*put);
    VisitNotice(bind, notice);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutNoticeResult(const Notice& notice) {
  return impl_->Change("storing what became of a notice", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared("UPDATE notice SET state=?,tries=?,next_ms=?,text=? WHERE id=?"));
    Binder bind(*put);
    bind.Bind(notice.state);
    bind.Bind(notice.tries);
    bind.Bind(notice.next);
    bind.Bind(notice.text);
    bind.Bind(notice.id);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::ForgetCalibration() {
  return impl_->Change("forgetting the calibration", [&]() -> Result<Unit> {
    const Use forget(impl_->Prepared("UPDATE observation SET context_mib=NULL,rest_mib=NULL"));
    forget->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutRequest(const AcceptedRequest& accepted, core::Time when) {
  return impl_->Change("storing a request", [&]() -> Result<Unit> {
    const Use put(
        impl_->Prepared("INSERT INTO request(uid,request,first,tasks,when_ms) VALUES(?,?,?,?,?)"));
    put->bind(1, accepted.uid);
    put->bind(2, accepted.request);
    put->bind(3, static_cast<std::int64_t>(core::Number(accepted.first)));
    put->bind(4, static_cast<std::int64_t>(accepted.count));
    put->bind(5, base::ToMs(when));
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::ForgetRequests(core::Time before) {
  return impl_->Change("forgetting requests", [&]() -> Result<Unit> {
    const Use drop(impl_->Prepared("DELETE FROM request WHERE when_ms < ?"));
    drop->bind(1, base::ToMs(before));
    drop->exec();
    return Unit{};
  });
}

Result<std::optional<AcceptedRequest>> Store::FindRequest(std::uint32_t uid,
                                                          const std::string& request) {
  return impl_->Read("reading a request", [&]() -> Result<std::optional<AcceptedRequest>> {
    const Use get(impl_->Prepared("SELECT first,tasks FROM request WHERE uid=? AND request=?"));
    get->bind(1, uid);
    get->bind(2, request);
    if (!get->executeStep()) return std::nullopt;
    return AcceptedRequest{uid, request,
                           core::TaskId{static_cast<std::uint64_t>(get->getColumn(0).getInt64())},
                           static_cast<std::size_t>(get->getColumn(1).getInt64())};
  });
}

Result<Unit> Store::BeginArrival(core::TaskId first, std::size_t tasks) {
  return impl_->Change("beginning a submission", [&]() -> Result<Unit> {
    const auto from = static_cast<std::int64_t>(core::Number(first));
    const std::int64_t past = from + static_cast<std::int64_t>(tasks);
    const Use put(impl_->Prepared("INSERT INTO arrival(first,past_last) VALUES(?,?)"));
    put->bind(1, from);
    put->bind(2, past);
    put->exec();
    impl_->last_task = std::max(impl_->last_task, past - 1);
    return Unit{};
  });
}

Result<Unit> Store::FinishArrival(core::TaskId first) {
  return impl_->Change("finishing a submission", [&]() -> Result<Unit> {
    const auto from = static_cast<std::int64_t>(core::Number(first));
    const Use count(impl_->Prepared(
        "INSERT INTO state_count SELECT state, count(*) FROM task WHERE id >= ?1 AND id < "
        "(SELECT past_last FROM arrival WHERE first = ?1) GROUP BY state "
        "ON CONFLICT(state) DO UPDATE SET tasks = tasks + excluded.tasks"));
    count->bind(1, from);
    count->exec();
    const Use forget(impl_->Prepared("DELETE FROM arrival WHERE first = ?"));
    forget->bind(1, from);
    forget->exec();
    return Unit{};
  });
}

Result<bool> Store::DropArrival(core::TaskId first, std::size_t most) {
  return impl_->Change("taking a submission back", [&]() -> Result<bool> {
    const auto from = static_cast<std::int64_t>(core::Number(first));
    const Use drop(
        impl_->Prepared("DELETE FROM task WHERE id IN (SELECT id FROM task WHERE id >= ?1 AND id < "
                        "(SELECT past_last FROM arrival WHERE first = ?1) LIMIT ?2)"));
    drop->bind(1, from);
    drop->bind(2, static_cast<std::int64_t>(most));
    if (std::cmp_equal(drop->exec(), most)) return false;
    const Use forget(impl_->Prepared("DELETE FROM arrival WHERE first = ?"));
    forget->bind(1, from);
    forget->exec();
    return true;
  });
}

Result<std::int64_t> Store::Prune(core::Time ended_before, std::int64_t most) {
  // What unfinished tasks depend on is asked for at the next start (StateOf), so it stays.
  const std::string old_tasks =
      "SELECT id FROM task WHERE ended_ms < ?1 AND state IN (" + QuotedStates(true) +
      ") AND id NOT IN (SELECT json_extract(value, '$[0]') FROM task, "
      "json_each(dependencies) WHERE dependencies IS NOT NULL AND state IN (" +
      QuotedStates(false) + ")) ORDER BY id LIMIT ?2";
  return impl_->Change("pruning", [&]() -> Result<std::int64_t> {
    const std::int64_t before_ms = base::ToMs(ended_before);
    const auto erase = [&](const std::string& sql, bool limited) {
      const Use drop(impl_->Prepared(sql));
      drop->bind(1, before_ms);
      if (limited) drop->bind(2, most);
      return drop->exec();
    };
    erase("DELETE FROM event WHERE task IN (" + old_tasks + ")", true);
    erase("DELETE FROM notice WHERE task IN (" + old_tasks + ")", true);
    const std::int64_t removed = erase("DELETE FROM task WHERE id IN (" + old_tasks + ")", true);
    if (removed == most) return removed;
    erase("DELETE FROM event WHERE task IS NULL AND when_ms < ?", false);
    erase("DELETE FROM notice WHERE task IS NULL AND made_ms < ?", false);
    erase("DELETE FROM gpu_usage WHERE to_ms < ?", false);
    const Use old_attempts(impl_->Prepared("DELETE FROM attempt WHERE ended_ms < ?"));
    old_attempts->bind(1, before_ms - kAttemptsKept.count());
    old_attempts->exec();
    impl_->templates.clear();  // the next line may take any that no task uses any more
    const Use unused(
        impl_->Prepared("DELETE FROM template WHERE id NOT IN "
                        "(SELECT template FROM description WHERE template IS NOT NULL)"));
    unused->exec();
    return removed;
  });
}

Result<core::TaskId> Store::NextId() {
  return core::TaskId{static_cast<std::uint64_t>(impl_->last_task) + 1};
}

Result<std::vector<StoredTask>> Store::Unfinished() {
  return impl_->Read("reading unfinished tasks", [&]() -> Result<std::vector<StoredTask>> {
    const Use rows(impl_->Prepared(impl_->select_tasks +
                                   "WHERE task.id IN (SELECT id FROM task INDEXED BY task_state "
                                   "WHERE state IN (" +
                                   QuotedStates(false) + ")) AND " + std::string(kArrived) +
                                   " ORDER BY task.id"));
    return impl_->ReadTasks(*rows);
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
    return Fail(ErrorCode::kNotFound, "no task " + std::to_string(core::Number(id)));
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
    return impl_->ReadTasks(*rows);
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
        std::string("SELECT sequence,when_ms,kind,task,gpu_uuid,what,text FROM event ") +
        (task ? "INDEXED BY event_task WHERE task=? AND " : "WHERE ") +
        "sequence>? ORDER BY sequence " + (after_sequence ? "" : "DESC ") + "LIMIT ?"));
    Binder bind(*rows);
    if (task) bind.Bind(*task);
    bind.Bind(after_sequence.value_or(0));
    bind.Bind(static_cast<std::int64_t>(
        std::min<std::uint64_t>(limit, std::numeric_limits<std::int64_t>::max())));
    Result<std::vector<StoredEvent>> events = ReadAll<StoredEvent>(
        *rows, "events", [](Reader& reader, StoredEvent& event) { VisitEvent(reader, event); });
    if (events && !after_sequence) std::reverse(events->begin(), events->end());
    return events;
  });
}

Result<std::vector<GpuUsage>> Store::Usage(core::Time from, core::Time to) {
  return impl_->Read("reading GPU use", [&]() -> Result<std::vector<GpuUsage>> {
    const Use rows(
        impl_->Prepared("SELECT " + UsageColumns() +
                        " FROM gpu_usage INDEXED BY gpu_usage_to WHERE to_ms>? AND from_ms<? "
                        "ORDER BY from_ms,gpu_uuid"));
    Binder bind(*rows);
    bind.Bind(from);
    bind.Bind(to);
    return ReadAll<GpuUsage>(*rows, "GPU use",
                             [](Reader& reader, GpuUsage& usage) { VisitUsage(reader, usage); });
  });
}

Result<std::vector<Drain>> Store::Drains() {
  return impl_->Read("reading drains", [&]() -> Result<std::vector<Drain>> {
    const Use rows(
        impl_->Prepared("SELECT gpu_uuid,by_rule,why FROM drain ORDER BY gpu_uuid,by_rule"));
    return ReadAll<Drain>(*rows, "drains",
                          [](Reader& reader, Drain& drain) { VisitDrain(reader, drain); });
  });
}

Result<std::optional<Forecast>> Store::ForecastOf(core::TaskId id) {
  return impl_->Read("reading a forecast", [&]() -> Result<std::optional<Forecast>> {
    const Use rows(
        impl_->Prepared("SELECT model,context_mib,rest_mib,remarks FROM forecast WHERE id=?"));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    if (!rows->executeStep()) return std::nullopt;
    Forecast forecast;
    forecast.task = id;
    Reader reader(*rows);
    reader("model", forecast.model);
    reader("context_mib", "rest_mib", forecast.formula);
    reader("remarks", forecast.remarks);
    if (reader.problem()) return Fail(ErrorCode::kCorrupt, "forecast: " + *reader.problem());
    return forecast;
  });
}

Result<std::vector<EndedAttempt>> Store::Attempts(core::Time ended_after) {
  return impl_->Read("reading attempts", [&]() -> Result<std::vector<EndedAttempt>> {
    const Use rows(impl_->Prepared("SELECT " + AttemptColumns() +
                                   " FROM attempt WHERE ended_ms >= ? ORDER BY ended_ms,task"));
    rows->bind(1, base::ToMs(ended_after));
    return ReadAll<EndedAttempt>(*rows, "attempts", [](Reader& reader, EndedAttempt& attempt) {
      VisitAttempt(reader, attempt);
    });
  });
}

Result<std::vector<Notice>> Store::WaitingNotices(std::size_t limit) {
  return impl_->Read("reading notices", [&]() -> Result<std::vector<Notice>> {
    const Use rows(impl_->Prepared("SELECT " + JoinColumns(NoticeColumns(), "", "", ",") +
                                   " FROM notice INDEXED BY notice_waiting WHERE state='waiting' "
                                   "ORDER BY next_ms,id LIMIT ?"));
    rows->bind(1, static_cast<std::int64_t>(limit));
    return ReadNotices(*rows);
  });
}

Result<std::vector<Notice>> Store::NoticesOf(core::TaskId id) {
  return impl_->Read("reading notices", [&]() -> Result<std::vector<Notice>> {
    const Use rows(impl_->Prepared("SELECT " + JoinColumns(NoticeColumns(), "", "", ",") +
                                   " FROM notice WHERE task=? ORDER BY id"));
    rows->bind(1, static_cast<std::int64_t>(core::Number(id)));
    return ReadNotices(*rows);
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
    const Use rows(impl_->Prepared("SELECT " + JoinColumns(ObservationColumns(), "", "", ",") +
                                   " FROM observation ORDER BY id"));
    return ReadAll<task::Observation>(
        *rows, "measured peaks",
        [](Reader& reader, task::Observation& peak) { VisitObservation(reader, peak); });
  });
}

}  // namespace carma::store
