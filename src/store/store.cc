#include "store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/batch.h"
#include "store/store_impl.h"

namespace carma::store {
namespace {

// A new notice, which gets its number from the store.
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

}  // namespace

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
    impl.LoadBooks();
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
  each(batch.closings, [&](const std::optional<Closing>& closing) { return PutClosing(closing); });
  each(batch.reservations, [&](const ReservationRow& booking) { return PutReservation(booking); });
  each(batch.job_returns, [&](const JobReturnRow& row) { return PutJobReturn(row); });
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
    const Use put(impl_->Prepared(InsertSql<StoredEvent>()));
    Binder bind(*put);
    Table<StoredEvent>::Visit(bind, numbered);
    put->exec();
    ++impl_->last_event;
    return Unit{};
  });
}

Result<Unit> Store::AddUsage(const GpuUsage& usage) {
  return impl_->Change("storing GPU use", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(InsertSql<GpuUsage>()));
    Binder bind(*put);
    Table<GpuUsage>::Visit(bind, usage);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::AddLineWait(const LineWait& wait) {
  return impl_->Change("storing what the head of the queue waited for", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(InsertSql<LineWait>()));
    Binder bind(*put);
    Table<LineWait>::Visit(bind, wait);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutDrain(const Drain& drain) {
  return impl_->Change("storing a drain", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(ReplaceSql<Drain>()));
    Binder bind(*put);
    Table<Drain>::Visit(bind, drain);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutClosing(const std::optional<Closing>& closing) {
  return impl_->Change("storing that the server is closed", [&]() -> Result<Unit> {
    const Use drop(impl_->Prepared("DELETE FROM closing"));
    drop->exec();
    if (!closing) return Unit{};
    const Use put(impl_->Prepared(InsertSql<Closing>()));
    Binder bind(*put);
    Table<Closing>::Visit(bind, *closing);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutReservation(const ReservationRow& booking) {
  return impl_->Change("storing a reservation", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(ReplaceSql<ReservationRow>()));
    Binder bind(*put);
    Table<ReservationRow>::Visit(bind, booking);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutJobReturn(const JobReturnRow& row) {
  return impl_->Change("storing a job's return", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(row.description ? ReplaceSql<JobReturnRow>()
                                                  : "DELETE FROM job_return WHERE task=?"));
    Binder bind(*put);
    if (row.description) {
      Table<JobReturnRow>::Visit(bind, row);
    } else {
      bind.Bind(row.task);
    }
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
    const Use put(impl_->Prepared(ReplaceSql<Forecast>()));
    Binder bind(*put);
    Table<Forecast>::Visit(bind, forecast);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::AddObservation(const task::Observation& observation) {
  return impl_->Change("storing a measured peak", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(InsertSql<task::Observation>()));
    Binder bind(*put);
    Table<task::Observation>::Visit(bind, observation);
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
  return impl_->Change("storing what an attempt used", [&]() -> Result<Unit> {
    const Use put(impl_->Prepared(ReplaceSql<EndedAttempt>()));
    Binder bind(*put);
    Table<EndedAttempt>::Visit(bind, attempt);
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
    const Use put(impl_->Prepared(InsertSql<Notice>()));
    NewNotice bind(*put);
    Table<Notice>::Visit(bind, notice);
    put->exec();
    return Unit{};
  });
}

Result<Unit> Store::PutNoticeResult(const Notice& notice) {
  return impl_->Change("storing the result of a notice", [&]() -> Result<Unit> {
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
  return impl_->Change("withdrawing a submission", [&]() -> Result<bool> {
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
  // Tasks on which unfinished ones depend are needed at the next start (StateOf), so they stay.
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
    erase("DELETE FROM line_wait WHERE to_ms < ?", false);
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

}  // namespace carma::store
