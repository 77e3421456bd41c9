// The durable books of one daemon: SQLite in WAL mode. Every change is in a batch; a batch is
// durable or has not happened.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "core/books/fair_share.h"
#include "core/values/reservation.h"
#include "core/values/task.h"
#include "task/verdict/observation.h"

namespace carma::store {

// One row per task: the core's record plus what the core does not need.
struct StoredTask {
  core::TaskRecord record;
  std::uint32_t gid = 0;
  std::string user;
  std::string name;
  std::string spec_json;               // task::ToJsonText
  std::vector<std::string> gpu_uuids;  // of its placement, same order
  std::string stdout_path;             // expanded
  std::string stderr_path;
};

// What the estimator said about a task beyond its record, until the task is forgotten.
struct Forecast {
  core::TaskId task{};
  std::string model;  // fingerprint of its layer list; empty: no readable summary
  std::optional<task::FormulaSplit> formula;
  std::vector<std::string> remarks;  // warnings, or why there is no estimate; one sentence each
  friend bool operator==(const Forecast&, const Forecast&) = default;
};

enum class EventKind {
  kSubmitted,
  kState,
  kDrain,
  kResume,
  kEdit,
  kNotice,
  kAsked,
  kReserve,
  kSlurm
};
inline constexpr std::pair<EventKind, std::string_view> kEventWords[] = {
    {EventKind::kSubmitted, "submitted"}, {EventKind::kState, "state"},
    {EventKind::kDrain, "drain"},         {EventKind::kResume, "resume"},
    {EventKind::kEdit, "edit"},           {EventKind::kNotice, "notice"},
    {EventKind::kAsked, "asked"},         {EventKind::kReserve, "reserve"},
    {EventKind::kSlurm, "slurm"},
};
// One line of history, for `carma history` and reports.
struct StoredEvent {
  std::int64_t sequence = 0;  // given by the store
  core::Time when{};
  EventKind kind{};
  std::optional<core::TaskId> task;
  std::string gpu_uuid;
  std::string what;  // state name, "drain" …
  std::string text;  // reason, one line
};

enum class NoticeState {
  kWaiting,  // for its sending, its first or another
  kSent,
  kFailed,   // no try is left, or none would help
  kDropped,  // not to be sent: too many, or not allowed here
};
inline constexpr std::pair<NoticeState, std::string_view> kNoticeWords[] = {
    {NoticeState::kWaiting, "waiting"},
    {NoticeState::kSent, "sent"},
    {NoticeState::kFailed, "failed"},
    {NoticeState::kDropped, "dropped"},
};
// Somebody is to be told of something. Kept with what it tells of, in one batch, so that neither is
// without the other; what is not known to have been sent is sent again.
struct Notice {
  std::int64_t id = 0;               // given by the store
  std::optional<core::TaskId> task;  // empty: of the server
  std::uint32_t uid = 0;             // whose rights it is sent with
  std::string event;                 // task::NotifyEvent's word, or the server's: "idle", "health"
  std::string target;                // as task::ParseNotifyTarget takes it
  std::string message;               // a JSON object
  core::Time made{};
  NoticeState state = NoticeState::kWaiting;
  int tries = 0;
  core::Time next{};  // waiting: not before then
  std::string text;   // what went wrong the last time, one line
  friend bool operator==(const Notice&, const Notice&) = default;
};

// What a person has changed of a task beside its record.
struct EditedDescription {
  core::TaskId task{};
  std::string name;
  std::string spec_json;
};

// Use of one GPU over one span, for reports: means over [from, to).
struct GpuUsage {
  core::Time from{};
  core::Time to{};
  std::string gpu_uuid;
  double sm_active = 0;  // NaN: not reported
  double used_mib = 0;
  double energy_j = 0;  // spent in the span; NaN: not reported
  int tasks = 0;        // residents at the end of the span
  // NaN: not reported, or kept by an older CARMA.
  double sm_peak = kUnknown;  // highest SM activity of one reading
  double used_peak_mib = kUnknown;
  double dram_active = kUnknown;
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

// How long in [from, to) the first task in line waited, for one reason, for reports.
struct LineWait {
  core::Time from{};
  core::Time to{};
  core::ReasonCode reason = core::ReasonCode::kNone;
  core::Duration waited{};
  friend bool operator==(const LineWait&, const LineWait&) = default;
};

// A GPU that takes no new tasks, and why. A person's drain and that of the rules of health stand
// side by side.
struct Drain {
  std::string gpu_uuid;
  std::string why;
  bool by_rule = false;
  std::optional<core::Time> empty_by;  // its tasks have to leave until then
  friend bool operator==(const Drain&, const Drain&) = default;
};

// The machine is to go down: nothing starts until it has.
struct Closing {
  std::string why;
  core::Time empty_by{};      // tasks have to leave until then
  std::string machine_start;  // during which start of the machine it was asked
  friend bool operator==(const Closing&, const Closing&) = default;
};

// A reservation: its description as JSON (core::Reservation), with who made it.
struct ReservationRow {
  core::ReservationId id{};
  std::string made_by;
  std::optional<std::string>
      description;  // empty: it was removed, and its number is not used again
  friend bool operator==(const ReservationRow&, const ReservationRow&) = default;
};

// A job of Slurm's that is being put back into its queue (slurm/job_return.h) because that task of
// its has ended: the description as JSON.
struct JobReturnRow {
  core::TaskId task{};
  std::optional<std::string> description;  // empty: it is done
  friend bool operator==(const JobReturnRow&, const JobReturnRow&) = default;
};

// An attempt that holds its GPUs no more, for accounts, limits and shares. Kept for a year, longer
// than its task.
struct EndedAttempt {
  core::TaskId task{};
  int number = 0;
  core::Taken taken;
  core::Duration waited{};            // before it
  std::optional<core::Time> started;  // its process ran
  std::int64_t promised_mib = 0;      // on each GPU
  std::int64_t peak_mib = 0;
  std::optional<core::ExitKind> exit;  // empty: could not be launched
  std::vector<std::string> gpu_uuids;
  friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};
inline constexpr core::Duration kAttemptsKept{std::chrono::hours(24 * 400)};

struct TaskFilter {
  std::vector<core::TaskState> states;  // empty: all
  std::optional<std::string> user;
  std::optional<std::string> name;            // exact
  std::optional<core::Time> ended_after;      // then or later
  std::optional<core::Time> submitted_after;  // then or later
  bool newest_first = true;                   // by id
  std::size_t limit = 100;
  std::optional<core::TaskId>
      before;  // page: ids below (newest first) or above (oldest first) this one
};

// A submission that its sender has named, so that he may repeat it: what it became.
struct AcceptedRequest {
  std::uint32_t uid = 0;
  std::string request;  // each user's names are his own
  core::TaskId first{};
  std::size_t count = 0;
};

// The books that gave a task its number. Other books give the same numbers to other tasks.
struct BooksId {
  std::string id;     // 32 hexadecimal digits, random
  bool named = true;  // false: a task of a version that did not put it into names of files
  friend bool operator==(const BooksId&, const BooksId&) = default;
};

// When a batch must survive the failure of the machine's power.
enum class Durability {
  kNow,    // once Commit returns
  kLater,  // with the next batch of kind kNow: only for what a restart would find out again. It
           // survives the end of the daemon; what was committed before it is in no danger.
};

struct Batch;  // store/batch.h

class Store {
 public:
  // Opens or creates. Takes the lock of the folder: a second daemon on the same state gets
  // kConflict with the holder's pid. Errors: kCorrupt (failed integrity or not our file:
  // untouched), kConflict (a newer schema: untouched), kDenied (the folder is not ours alone), kIo.
  static base::Result<std::unique_ptr<Store>> Open(const std::string& state_dir);
  ~Store();

  // Errors: kIo: the files were removed or replaced, so nothing can be kept any more. As cheap as a
  // look at two files; every batch begins with it.
  base::Result<base::Unit> InPlace() const;

  // A batch: everything between Begin and Commit becomes durable together, when `durability` says.
  // Errors: kIo (disk full …), of Commit or of any call between; the batch is rolled back at once,
  // the books are as before Begin, the rest of the batch answers kIo too, and the next Begin starts
  // afresh. Rollback without an open batch does nothing.
  base::Result<base::Unit> Begin(Durability durability = Durability::kNow);
  base::Result<base::Unit> Commit();
  void Rollback();
  // All of it between a Begin and a Commit; rolled back if any of it fails. Nothing, if it is
  // empty.
  base::Result<base::Unit> Apply(const Batch& batch, Durability durability);

  // Inside a batch.
  base::Result<base::Unit> PutTask(const StoredTask& task);  // insert or replace, spec included
  base::Result<base::Unit> PutRecord(  // kNotFound: no such task (the batch stays open)
      const core::TaskRecord& record,  // the changing part of a known task
      const std::vector<std::string>& gpu_uuids);
  base::Result<base::Unit> AddEvent(const StoredEvent& event);
  base::Result<base::Unit> AddUsage(const GpuUsage& usage);
  base::Result<base::Unit> AddLineWait(const LineWait& wait);
  base::Result<base::Unit> PutDrain(const Drain& drain);
  base::Result<base::Unit> DropDrain(const std::string& gpu_uuid, bool by_rule);
  base::Result<base::Unit> PutClosing(const std::optional<Closing>& closing);  // empty: it is open
  base::Result<base::Unit> PutReservation(const ReservationRow& booking);      // insert or replace
  base::Result<base::Unit> PutJobReturn(const JobReturnRow& row);  // insert, replace or drop
  base::Result<base::Unit> PutForecast(const Forecast& forecast);  // insert or replace; known task
  // Forgets the oldest beyond the limits of task/verdict/observation.h.
  base::Result<base::Unit> AddObservation(const task::Observation& observation);
  base::Result<base::Unit> PutAttempt(const EndedAttempt& attempt);          // insert or replace
  base::Result<base::Unit> PutDescription(const EditedDescription& edited);  // of a known task
  base::Result<base::Unit> AddNotice(const Notice& notice);
  // Its state, tries, next and text; of one that was pruned meanwhile nothing.
  base::Result<base::Unit> PutNoticeResult(const Notice& notice);
  base::Result<base::Unit> PutRequest(const AcceptedRequest& accepted, core::Time when);
  // Those accepted before the time.
  base::Result<base::Unit> ForgetRequests(core::Time before);
  // Peaks stay, what they said about the formula goes.
  base::Result<base::Unit> ForgetCalibration();
  // Removes finished tasks that ended before the time, at most so many, with their events; once
  // none is left also usage, line waits and events of that age, and attempts that are older than
  // kAttemptsKept by then. Returns how many tasks. A task that an unfinished one depends on stays.
  base::Result<std::int64_t> Prune(core::Time ended_before, std::int64_t most);
  // A submission that is put in more than one batch has its numbers from the first of them on:
  // `tasks` of them from `first`. Until FinishArrival its tasks are in no answer and no count, in
  // this life or a later one.
  base::Result<base::Unit> BeginArrival(core::TaskId first, std::size_t tasks);
  base::Result<base::Unit> FinishArrival(core::TaskId first);
  // Takes back tasks of one that is given up, at most so many. True: nothing of it is left.
  base::Result<bool> DropArrival(core::TaskId first, std::size_t most);

  // Reading.
  base::Result<core::TaskId> NextId();                 // one past the highest id ever given
  BooksId BooksOf(core::TaskId id) const;              // also of one that is yet to come
  base::Result<std::vector<StoredTask>> Unfinished();  // by id, without paging
  base::Result<std::vector<core::TaskId>> Arrivals();  // the first numbers of unfinished ones
  base::Result<StoredTask> Get(core::TaskId id);       // kNotFound
  base::Result<std::optional<core::TaskState>> StateOf(core::TaskId id);
  base::Result<std::vector<StoredTask>> List(const TaskFilter& filter);
  base::Result<std::vector<std::pair<core::TaskState, std::int64_t>>> Counts();
  // In order; without after_sequence the newest `limit` of them.
  base::Result<std::vector<StoredEvent>> Events(std::optional<core::TaskId> task,
                                                std::optional<std::int64_t> after_sequence,
                                                std::size_t limit);
  base::Result<std::vector<GpuUsage>> Usage(core::Time from, core::Time to);
  base::Result<std::vector<Drain>> Drains();
  base::Result<std::optional<Closing>> ServerClosing();
  base::Result<std::vector<ReservationRow>> ReservationBook();  // by number, removed ones too
  base::Result<std::vector<JobReturnRow>> JobReturns();         // by task
  base::Result<bool> JobReturns(core::TaskId id);               // that task's job
  base::Result<std::optional<AcceptedRequest>> FindRequest(std::uint32_t uid,
                                                           const std::string& request);
  base::Result<std::optional<Forecast>> ForecastOf(core::TaskId id);
  base::Result<std::vector<task::Observation>> Observations();  // all, oldest first
  // Those that ended then or later, by their ends.
  base::Result<std::vector<EndedAttempt>> Attempts(core::Time ended_after);
  // Those that wait, the earliest due first.
  base::Result<std::vector<Notice>> WaitingNotices(std::size_t limit);
  base::Result<std::vector<Notice>> NoticesOf(core::TaskId id);  // in order
  // Of this user's those made then or later that were not dropped.
  base::Result<std::int64_t> CountNotices(std::uint32_t uid, core::Time made_after);

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carma::store

namespace carma {
template <>
inline constexpr base::Words<store::EventKind> base::kWordsOf<store::EventKind> =
    store::kEventWords;
template <>
inline constexpr base::Words<store::NoticeState> base::kWordsOf<store::NoticeState> =
    store::kNoticeWords;
}  // namespace carma
