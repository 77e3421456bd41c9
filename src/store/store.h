// The durable state of one daemon, in SQLite (WAL mode). Every change is part of a batch, which
// becomes durable as a whole or not at all.
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

// One task in the database: the scheduler core's record, and values that only the daemon needs.
struct StoredTask {
  core::TaskRecord record;
  std::uint32_t gid = 0;
  std::string user;
  std::string name;
  std::string spec_json;               // task::ToJsonText
  std::vector<std::string> gpu_uuids;  // the GPUs of its placement, in the same order
  std::string stdout_path;             // with placeholders expanded
  std::string stderr_path;
};

// Details of a task's estimate that are not in its record. They are kept until the task is deleted.
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
// The submitter of a task.
struct TaskOwner {
  std::uint32_t uid = 0;
  std::string user;  // user name at submission
};
// One line of history, shown by `carma history` and used in reports.
struct StoredEvent {
  std::int64_t sequence = 0;  // assigned by the store
  core::Time when{};
  EventKind kind{};
  std::optional<core::TaskId> task;
  std::string gpu_uuid;
  std::string what;  // state name, "drain" …
  std::string text;  // reason, one line
};

enum class NoticeState {
  kWaiting,  // to be sent or retried
  kSent,
  kFailed,   // no retries left, or a permanent error
  kDropped,  // not sent: too many, or not allowed here
};
inline constexpr std::pair<NoticeState, std::string_view> kNoticeWords[] = {
    {NoticeState::kWaiting, "waiting"},
    {NoticeState::kSent, "sent"},
    {NoticeState::kFailed, "failed"},
    {NoticeState::kDropped, "dropped"},
};
// A notification. It is stored in the same batch as the change that it reports, so that neither is
// lost without the other. It is sent again if its delivery was not recorded.
struct Notice {
  std::int64_t id = 0;               // assigned by the store
  std::optional<core::TaskId> task;  // empty: a notice about the server
  std::uint32_t uid = 0;             // sent with this user's privileges
  std::string event;                 // task::NotifyEvent's word, or the server's: "idle", "health"
  std::string target;                // for task::ParseNotifyTarget
  std::string message;               // a JSON object
  core::Time made{};
  NoticeState state = NoticeState::kWaiting;
  int tries = 0;
  core::Time next{};  // kWaiting: earliest time of the next try
  std::string text;   // the last error, one line
  friend bool operator==(const Notice&, const Notice&) = default;
};

// A task's description after an edit.
struct EditedDescription {
  core::TaskId task{};
  std::string name;
  std::string spec_json;
};

// The usage of one GPU in the time span [from, to), for reports. Values are means unless a comment
// says otherwise.
struct GpuUsage {
  core::Time from{};
  core::Time to{};
  std::string gpu_uuid;
  double sm_active = 0;  // NaN: not reported
  double used_mib = 0;
  double energy_j = 0;  // used in the span; NaN: not reported
  int tasks = 0;        // tasks on the GPU at the end of the span
  // NaN if the GPU does not report the value, or if the row was written by an older CARMA.
  double sm_peak = kUnknown;  // highest SM activity in a reading
  double used_peak_mib = kUnknown;
  double dram_active = kUnknown;
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

// How long the head of the queue waited for one reason within [from, to), for reports.
struct LineWait {
  core::Time from{};
  core::Time to{};
  core::ReasonCode reason = core::ReasonCode::kNone;
  core::Duration waited{};
  friend bool operator==(const LineWait&, const LineWait&) = default;
};

// A GPU drain. While it exists, the GPU accepts no new tasks. Drains by administrators and by the
// health rules are separate rows.
struct Drain {
  std::string gpu_uuid;
  std::string why;
  bool by_rule = false;
  std::optional<core::Time> empty_by;  // deadline for its tasks to leave
  friend bool operator==(const Drain&, const Drain&) = default;
};

// The server is closed because its machine is going to shut down. No task starts until the machine
// has been restarted.
struct Closing {
  std::string why;
  core::Time empty_by{};      // deadline for tasks to leave
  std::string machine_start;  // boot during which the server was closed
  friend bool operator==(const Closing&, const Closing&) = default;
};

// A reservation: its description as JSON (core::Reservation) and the user who made it.
struct ReservationRow {
  core::ReservationId id{};
  std::string made_by;
  std::optional<std::string> description;  // empty: removed; the number is not reused
  friend bool operator==(const ReservationRow&, const ReservationRow&) = default;
};

// How to requeue a Slurm job after its task has ended, as JSON (slurm/job_return.h).
struct JobReturnRow {
  core::TaskId task{};
  std::optional<std::string> description;  // empty: the requeue is done
  friend bool operator==(const JobReturnRow&, const JobReturnRow&) = default;
};

// A finished attempt, for accounting, limits and fair shares. It is stored for kAttemptsKept longer
// than its task.
struct EndedAttempt {
  core::TaskId task{};
  int number = 0;
  core::Taken taken;
  core::Duration waited{};            // before the attempt
  std::optional<core::Time> started;  // empty: its process never ran
  std::int64_t promised_mib = 0;      // on each GPU
  std::int64_t peak_mib = 0;
  std::optional<core::ExitKind> exit;  // empty: not launched
  std::vector<std::string> gpu_uuids;
  friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};
inline constexpr core::Duration kAttemptsKept{std::chrono::hours(24 * 400)};

struct TaskFilter {
  std::vector<core::TaskState> states;  // empty: all
  std::optional<std::string> user;
  std::optional<std::string> name;  // exact
  bool newest_first = true;         // by id
  std::size_t limit = 100;
  std::optional<core::TaskId>
      before;  // next page: only ids below (newest first) or above (oldest first) this one
  std::optional<std::string> account;
  std::optional<std::string> qos;  // core::kUsualQos also finds tasks without a class
};

// Limits the size of a listing, because a single description may contain a script of several
// megabytes.
inline constexpr std::size_t kMostListedBytes = 16 << 20;

// Returns the states for which `holds` is true, for use in a filter.
std::vector<core::TaskState> StatesWhere(const std::function<bool(core::TaskState)>& holds);

// A submission with a request name, and the tasks that it created. A client may safely send the
// submission again under the same name.
struct AcceptedRequest {
  std::uint32_t uid = 0;
  std::string request;  // unique per user
  core::TaskId first{};
  std::size_t count = 0;
};

// Identifies the database that assigned a task's number. In a different database, the same number
// means a different task.
struct BooksId {
  std::string id;     // 32 hexadecimal digits, random
  bool named = true;  // false: from a version that did not put the id in file names
  friend bool operator==(const BooksId&, const BooksId&) = default;
};

// When a batch is guaranteed to survive a power failure.
enum class Durability {
  kNow,  // once Commit returns
  // The batch becomes durable together with the next kNow batch. Until then, a power failure may
  // lose it, but a crash of the daemon cannot. Only for data that can be recovered after a restart.
  kLater,
};

struct Batch;  // store/batch.h

// Only one thread at a time may use a store; the database takes no locks of its own.
class Store {
 public:
  // Opens or creates the database and takes the folder's lock (see StateLock::Take). Returns
  // kCorrupt if the integrity check fails or the file is not CARMA's; kConflict for a newer schema;
  // kDenied if others may write to the folder; or kIo. kCorrupt and kConflict leave the file
  // unchanged.
  static Result<std::unique_ptr<Store>> Open(const std::string& state_dir,
                                             const std::string& socket = "");
  ~Store();

  // Returns kIo if the files were removed or replaced, in which case nothing more can be stored.
  // Costs two calls to stat. Every batch begins with this check.
  Result<Unit> InPlace() const;

  // Everything between Begin and Commit is one batch, which becomes durable as `durability`
  // requires. If Commit or a call before it fails, for example because the disk is full, it returns
  // kIo and the batch is rolled back immediately. All later calls of the batch also return kIo, and
  // the next Begin starts a new batch. Rollback without an open batch has no effect.
  Result<Unit> Begin(Durability durability = Durability::kNow);
  Result<Unit> Commit();
  void Rollback();
  // Writes the whole batch between a Begin and a Commit, and rolls back if an error occurs. Does
  // nothing if the batch is empty.
  Result<Unit> Apply(const Batch& batch, Durability durability);

  // The following calls are allowed only inside a batch.
  Result<Unit> PutTask(const StoredTask& task);  // insert or replace, with its spec
  Result<Unit> PutRecord(              // kNotFound for an unknown task (the batch stays open)
      const core::TaskRecord& record,  // the part of a known task that changes
      const std::vector<std::string>& gpu_uuids);
  Result<Unit> AddEvent(const StoredEvent& event);
  Result<Unit> AddUsage(const GpuUsage& usage);
  Result<Unit> AddLineWait(const LineWait& wait);
  Result<Unit> PutDrain(const Drain& drain);
  Result<Unit> DropDrain(const std::string& gpu_uuid, bool by_rule);
  Result<Unit> PutForecast(const Forecast& forecast);  // insert or replace; for a known task
  // Deletes the oldest observations beyond the limits of task/verdict/observation.h.
  Result<Unit> AddObservation(const task::Observation& observation);
  Result<Unit> PutAttempt(const EndedAttempt& attempt);          // insert or replace
  Result<Unit> PutDescription(const EditedDescription& edited);  // of a known task
  Result<Unit> AddNotice(const Notice& notice);
  // Updates state, tries, next and text. Does nothing if the notice has already been pruned.
  Result<Unit> PutNoticeResult(const Notice& notice);
  Result<Unit> PutRequest(const AcceptedRequest& accepted, core::Time when);
  // Deletes all requests that were accepted before `before`.
  Result<Unit> ForgetRequests(core::Time before);
  // Clears the values that compare observed peaks with the formula. The peaks themselves stay.
  Result<Unit> ForgetCalibration();
  // Deletes up to `most` tasks that ended before `ended_before`, with their events and notices.
  // Keeps tasks on which unfinished tasks depend. Once no task is left to delete, also deletes
  // usage, line waits, events and notices from before `ended_before`, and attempts that ended more
  // than kAttemptsKept before that. Returns the number of deleted tasks.
  Result<std::int64_t> Prune(core::Time ended_before, std::int64_t most);
  // Begins a submission that needs several batches. The first batch reserves `tasks` task numbers,
  // starting with `first`. Until FinishArrival, the tasks do not appear in any result or count,
  // even after a restart.
  Result<Unit> BeginArrival(core::TaskId first, std::size_t tasks);
  Result<Unit> FinishArrival(core::TaskId first);
  // Deletes at most `most` tasks of an abandoned submission. Returns true if no tasks of the
  // submission are left.
  Result<bool> DropArrival(core::TaskId first, std::size_t most);

  // Reading.
  Result<core::TaskId> NextId();                 // highest id ever assigned, plus 1
  BooksId BooksOf(core::TaskId id) const;        // also for future tasks
  Result<std::vector<StoredTask>> Unfinished();  // by id, without paging
  Result<std::vector<core::TaskId>> Arrivals();  // first numbers of incomplete submissions
  Result<StoredTask> Get(core::TaskId id);       // kNotFound
  Result<std::optional<core::TaskState>> StateOf(core::TaskId id);
  Result<std::optional<TaskOwner>> OwnerOf(core::TaskId id);  // reads only the owner
  // cut: set to true if the list ends early because its descriptions exceed kMostListedBytes,
  // otherwise to false. If null, the list never ends early; instead, tasks beyond that size come
  // without their descriptions.
  Result<std::vector<StoredTask>> List(const TaskFilter& filter, bool* cut = nullptr);
  Result<std::vector<std::pair<core::TaskState, std::int64_t>>> Counts();
  // The tasks of the array whose first task is `first`.
  Result<std::vector<std::pair<core::TaskId, core::TaskState>>> StatesOfArray(core::TaskId first);
  // Events in order. Without after_sequence, returns the newest `limit` events.
  Result<std::vector<StoredEvent>> Events(std::optional<core::TaskId> task,
                                          std::optional<std::int64_t> after_sequence,
                                          std::size_t limit);
  // Time of the newest stored event or usage record; empty if there is none. carmad stores usage
  // every minute, so this is at most about a minute before it last exited.
  Result<std::optional<core::Time>> LastWritten();
  Result<std::vector<GpuUsage>> Usage(core::Time from, core::Time to);
  Result<std::vector<Drain>> Drains();
  Result<std::optional<Closing>> ServerClosing();
  Result<std::vector<ReservationRow>> ReservationBook();  // by number, including removed ones
  Result<std::vector<JobReturnRow>> JobReturns();         // by task
  Result<bool> JobReturns(core::TaskId id);  // whether the task's job is being requeued
  Result<std::optional<AcceptedRequest>> FindRequest(std::uint32_t uid, const std::string& request);
  Result<std::optional<Forecast>> ForecastOf(core::TaskId id);
  Result<std::vector<task::Observation>> Observations();  // all, oldest first
  // Attempts that ended in the time span [from, to), ordered by end.
  Result<std::vector<EndedAttempt>> Attempts(core::Time from, core::Time to = core::Time::max());
  // Waiting notices, ordered by due time.
  Result<std::vector<Notice>> WaitingNotices(std::size_t limit);
  Result<std::vector<Notice>> NoticesOf(core::TaskId id);  // in order
  // Counts the user's notices made at `made_after` or later, except dropped ones.
  Result<std::int64_t> CountNotices(std::uint32_t uid, core::Time made_after);

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
