#include "store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "store/batch.h"
#include "store/store_impl.h"

namespace carma::store {
namespace {

// Binds the columns of a new notice. Its id is bound to NULL, so that SQLite assigns one.
class NewNotice {
 public:
  explicit NewNotice(SQLite::Statement& statement) : binder_(statement) {}
  template <class Value>
  void operator()(const char* name, const Value& value) {
    if (name == std::string_view("id")) return binder_(name, std::optional<std::int64_t>());
    binder_(name, value);
  }

 private:
  Binder binder_;
};

constexpr const char* kDropArrival = "DELETE FROM arrival WHERE first = ?";

// If tasks have folders, the database was lost. A new one would reuse their numbers and start other
// tasks on their GPUs.
Result<Unit> CheckNoAttempts(const std::string& state_dir, const std::string& path) {
  const std::string attempts = state_dir + "/attempts";
  std::error_code missing;
  if (std::filesystem::is_empty(attempts, missing) || missing) return Unit{};
  return Fail(ErrorCode::kCorrupt,
              "{} is missing, but {} has folders of tasks: restore a backup, or move these folders "
              "away to begin with an empty database",
              path, attempts);
}

}  // namespace

Store::Store() = default;
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const std::string& state_dir,
                                           const std::string& socket) {
  StateLock lock = CARMA_TRY(StateLock::Take(state_dir, socket));
  const std::string path = state_dir + "/" + std::string(kFileName);
  Result<Unit> sound = Inspect(path);
  if (!sound && sound.error().code != ErrorCode::kNotFound) return std::unexpected(sound.error());
  if (!sound) CARMA_TRY(CheckNoAttempts(state_dir, path));

  std::unique_ptr<Store> store(new Store());
  store->impl_ = std::make_unique<Impl>(std::move(lock));
  Impl& impl = *store->impl_;
  impl.db = CARMA_TRY(OpenForWork(path));
  CARMA_TRY(impl.Read("opening " + path, [&]() -> Result<Unit> {
    impl.LoadCounters();
    impl.LoadBooks();
    return Unit{};
  }));
  impl.place = FilePlace(path, "put the file back before carmad stops, or restore a backup");
  impl.log_place = FilePlace(path + "-wal", "put the file back, or restart carmad");
  return store;
}

Result<Unit> Store::InPlace() const {
  return impl_->InPlace();
}

Result<Unit> Store::Begin(Durability durability) {
  CARMA_CHECK(impl_->batch == Impl::Transaction::kNone, "a store batch is already open");
  CARMA_TRY(impl_->InPlace());
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
  each(batch.records, [&](const auto& row) -> Result<Unit> {
    Result<Unit> put = PutRecord(row.second.record, row.second.gpu_uuids);
    if (put || put.error().code != ErrorCode::kNotFound) return put;
    base::LogError("task_missing", {{"why", put.error().message}});  // pruned while being requeued
    return Unit{};
  });
  each(batch.events, [&](const StoredEvent& event) { return AddEvent(event); });
  each(batch.usage, [&](const GpuUsage& usage) { return AddUsage(usage); });
  each(batch.line_waits, [&](const LineWait& wait) { return AddLineWait(wait); });
  each(batch.forecasts, [&](const Forecast& forecast) { return PutForecast(forecast); });
  each(batch.observations, [&](const task::Observation& seen) { return AddObservation(seen); });
  each(batch.attempts, [&](const EndedAttempt& attempt) { return PutAttempt(attempt); });
  each(batch.descriptions, [&](const EditedDescription& edited) { return PutDescription(edited); });
  each(batch.notices, [&](const Notice& notice) { return AddNotice(notice); });
  each(batch.notice_results, [&](const Notice& notice) { return PutNoticeResult(notice); });
  if (ok && batch.forget_calibration) ok = ForgetCalibration();
  each(batch.drains, [&](const auto& row) {
    const auto& [gpu_uuid, by_rule] = row.first;
    if (!row.second) return DropDrain(gpu_uuid, by_rule);
    return PutDrain({gpu_uuid, row.second->why, by_rule, row.second->empty_by});
  });
  each(batch.closings, [&](const std::optional<Closing>& closing) {
    return impl_->Do("storing whether the server is closed", [&] {
      impl_->Run("DELETE FROM closing");
      if (closing) impl_->Put(InsertSql<Closing>(), *closing);
    });
  });
  each(batch.reservations, [&](const ReservationRow& booking) {
    return impl_->Do("storing a reservation",
                     [&] { impl_->Put(ReplaceSql<ReservationRow>(), booking); });
  });
  each(batch.job_returns, [&](const JobReturnRow& row) {
    return impl_->Do("storing a job's return", [&] {
      if (row.description) {
        impl_->Put(ReplaceSql<JobReturnRow>(), row);
      } else {
        impl_->Run("DELETE FROM job_return WHERE task=?", row.task);
      }
    });
  });
  if (ok) return Commit();
  Rollback();
  return ok;
}

Result<Unit> Store::PutTask(const StoredTask& task) {
  const std::uint64_t id = core::Number(task.record.id);
  if (id == 0 || id > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return Invalid("task id " + std::to_string(id) + ": expected 1 to 2^63 - 1");
  return impl_->Do("storing a task", [&] {
    const Use put(impl_->Prepared(impl_->put_task));
    Binder bind(*put);
    bind.Bind(task.record.id);
    VisitTask(bind, task);
    put->exec();
    const PackedSpec spec = impl_->Pack(task.user, task.spec_json);
    impl_->Run(kPutDescription, task.record.id, task.gid, spec.template_id, spec.text,
               task.stdout_path, task.stderr_path);
    impl_->last_task = std::max(impl_->last_task, static_cast<std::int64_t>(id));
  });
}

Result<Unit> Store::PutRecord(const core::TaskRecord& record,
                              const std::vector<std::string>& gpu_uuids) {
  return impl_->Change("storing a task's state", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(impl_->put_record));
    Binder bind(*put);
    VisitRecord(bind, record, gpu_uuids);
    bind.Bind(record.id);
    if (put->exec() == 0)
      return NotFound("task " + std::to_string(core::Number(record.id)) +
                      " is not in the database");
    return Unit{};
  });
}

Result<Unit> Store::AddEvent(const StoredEvent& event) {
  return impl_->Do("storing an event", [&] {
    StoredEvent numbered = event;
    numbered.sequence = impl_->last_event + 1;
    impl_->Put(InsertSql<StoredEvent>(), numbered);
    ++impl_->last_event;
  });
}

Result<Unit> Store::AddUsage(const GpuUsage& usage) {
  return impl_->Do("storing GPU usage", [&] { impl_->Put(InsertSql<GpuUsage>(), usage); });
}

Result<Unit> Store::AddLineWait(const LineWait& wait) {
  return impl_->Do("storing the wait reason for the head of the queue",
                   [&] { impl_->Put(InsertSql<LineWait>(), wait); });
}

Result<Unit> Store::PutDrain(const Drain& drain) {
  return impl_->Do("storing a drain", [&] { impl_->Put(ReplaceSql<Drain>(), drain); });
}

Result<Unit> Store::DropDrain(const std::string& gpu_uuid, bool by_rule) {
  return impl_->Do("dropping a drain", [&] {
    impl_->Run("DELETE FROM drain WHERE gpu_uuid=? AND by_rule=?", gpu_uuid, by_rule);
  });
}

Result<Unit> Store::PutForecast(const Forecast& forecast) {
  return impl_->Do("storing a forecast", [&] { impl_->Put(ReplaceSql<Forecast>(), forecast); });
}

Result<Unit> Store::AddObservation(const task::Observation& observation) {
  return impl_->Do("storing a measured peak", [&] {
    impl_->Put(InsertSql<task::Observation>(), observation);
    impl_->Run(
        "DELETE FROM observation WHERE signature=?1 AND id NOT IN (SELECT id FROM "
        "observation WHERE signature=?1 ORDER BY id DESC LIMIT ?2)",
        observation.signature, task::kRunsPerSignature);
    impl_->Run(
        "DELETE FROM observation WHERE id <= (SELECT id FROM observation "
        "ORDER BY id DESC LIMIT 1 OFFSET ?)",
        task::kMaxObservations);
  });
}

Result<Unit> Store::PutAttempt(const EndedAttempt& attempt) {
  return impl_->Do("storing an attempt's resource usage",
                   [&] { impl_->Put(ReplaceSql<EndedAttempt>(), attempt); });
}

Result<Unit> Store::PutDescription(const EditedDescription& edited) {
  return impl_->Change("storing a description", [&]() -> Result<Unit> {
    const Use name(impl_->Prepared("UPDATE task SET name=? WHERE id=? RETURNING user"));
    Binder bind(*name);
    bind.Bind(edited.name);
    bind.Bind(edited.task);
    if (!name->executeStep())
      return NotFound("no task " + std::to_string(core::Number(edited.task)));
    const std::string user = name->getColumn(0).getString();
    const PackedSpec spec = impl_->Pack(user, edited.spec_json);
    impl_->Run("UPDATE description SET template=?,spec=? WHERE id=?", spec.template_id, spec.text,
               edited.task);
    return Unit{};
  });
}

Result<Unit> Store::AddNotice(const Notice& notice) {
  return impl_->Do("storing a notice", [&] { impl_->Put<NewNotice>(InsertSql<Notice>(), notice); });
}

Result<Unit> Store::PutNoticeResult(const Notice& notice) {
  return impl_->Do("storing a notice's result", [&] {
    impl_->Run("UPDATE notice SET state=?,tries=?,next_ms=?,text=? WHERE id=?", notice.state,
               notice.tries, notice.next, notice.text, notice.id);
  });
}

Result<Unit> Store::ForgetCalibration() {
  return impl_->Do("forgetting the calibration",
                   [&] { impl_->Run("UPDATE observation SET context_mib=NULL,rest_mib=NULL"); });
}

Result<Unit> Store::PutRequest(const AcceptedRequest& accepted, core::Time when) {
  return impl_->Do("storing a request", [&] {
    impl_->Run("INSERT INTO request(uid,request,first,tasks,when_ms) VALUES(?,?,?,?,?)",
               accepted.uid, accepted.request, accepted.first, accepted.count, when);
  });
}

Result<Unit> Store::ForgetRequests(core::Time before) {
  return impl_->Do("forgetting requests",
                   [&] { impl_->Run("DELETE FROM request WHERE when_ms < ?", before); });
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
  return impl_->Do("beginning a submission", [&] {
    const auto past = static_cast<std::int64_t>(core::Number(first) + tasks);
    impl_->Run("INSERT INTO arrival(first,past_last) VALUES(?,?)", first, past);
    impl_->last_task = std::max(impl_->last_task, past - 1);
  });
}

Result<Unit> Store::FinishArrival(core::TaskId first) {
  return impl_->Do("finishing a submission", [&] {
    impl_->Run(
        "INSERT INTO state_count SELECT state, count(*) FROM task WHERE id >= ?1 AND id < "
        "(SELECT past_last FROM arrival WHERE first = ?1) GROUP BY state "
        "ON CONFLICT(state) DO UPDATE SET tasks = tasks + excluded.tasks",
        first);
    impl_->Run(kDropArrival, first);
  });
}

Result<bool> Store::DropArrival(core::TaskId first, std::size_t most) {
  return impl_->Change("withdrawing a submission", [&]() -> Result<bool> {
    const int dropped = impl_->Run(
        "DELETE FROM task WHERE id IN (SELECT id FROM task WHERE id >= ?1 AND id < "
        "(SELECT past_last FROM arrival WHERE first = ?1) LIMIT ?2)",
        first, most);
    if (std::cmp_equal(dropped, most)) return false;
    impl_->Run(kDropArrival, first);
    return true;
  });
}

Result<std::int64_t> Store::Prune(core::Time ended_before, std::int64_t most) {
  // Tasks that unfinished tasks depend on are kept, because StateOf needs them at the next start.
  // Without INDEXED BY, SQLite would read the rows of all finished tasks.
  const std::string old_tasks =
      "SELECT id FROM task INDEXED BY task_ended WHERE ended_ms < ?1 AND state IN (" +
      QuotedStates(true) +
      ") AND id NOT IN (SELECT json_extract(value, '$[0]') FROM task, "
      "json_each(dependencies) WHERE dependencies IS NOT NULL AND state IN (" +
      QuotedStates(false) + ")) ORDER BY id LIMIT ?2";
  return impl_->Change("pruning", [&]() -> Result<std::int64_t> {
    impl_->Run("CREATE TEMP TABLE IF NOT EXISTS old (id INTEGER PRIMARY KEY)");
    impl_->Run("DELETE FROM temp.old");
    impl_->Run("INSERT INTO temp.old " + old_tasks, ended_before, most);
    std::int64_t removed = 0;
    for (const char* of : {"event WHERE task", "notice WHERE task", "task WHERE id"})
      removed = impl_->Run(fmt::format("DELETE FROM {} IN (SELECT id FROM temp.old)", of));
    if (removed == most) return removed;
    // Events have no index by time but are stored in order, so only the oldest ones are read.
    impl_->Run(
        "DELETE FROM event WHERE task IS NULL AND when_ms < ?1 AND sequence < "
        "ifnull((SELECT sequence FROM event WHERE when_ms >= ?1 ORDER BY sequence LIMIT 1), ?2)",
        ended_before, std::numeric_limits<std::int64_t>::max());
    for (const char* old : {"gpu_usage WHERE to_ms", "notice WHERE task IS NULL AND made_ms",
                            "line_wait WHERE to_ms"})
      impl_->Run(fmt::format("DELETE FROM {} < ?", old), ended_before);
    impl_->Run("DELETE FROM attempt WHERE ended_ms < ?", ended_before - kAttemptsKept);
    if (removed == 0) return removed;
    impl_->Run(
        "DELETE FROM template WHERE NOT EXISTS "
        "(SELECT 1 FROM description WHERE description.template=template.id)");
    impl_->ForgetLostTemplates();
    return removed;
  });
}

}  // namespace carma::store
