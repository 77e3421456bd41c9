// Accepts submissions: checks, numbers and stores their tasks before they reach the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "daemon/engine/estimates.h"
#include "daemon/engine/task_list.h"
#include "store/store.h"
#include "task/describe/spec.h"

namespace carma::daemon {

// The submitting user, as identified by the kernel.
struct Submitter {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string remark = {};  // more text for the submission's event; may be empty
  // The submission's name, or empty. If a submission with this name was already accepted, its tasks
  // are returned and nothing new is submitted.
  std::string request = {};
  // kLater for leases, because a power failure kills the process that holds the lease anyway.
  store::Durability durability = store::Durability::kNow;
  std::optional<core::TaskId> task = {};  // the running task that made the submission, if any
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
  bool repeated = false;  // a submission with this name was accepted before
  // A warning for the user if a task can never run or its output will be lost; otherwise empty.
  std::string warning = {};
};

// Accepts submissions. Each turn handles only a limited number of tasks
// (EngineOptions::turn_share), so that other requests do not have to wait long. A larger submission
// is checked and stored in pieces, one per turn, and stays invisible until its last piece is
// durable. The core also receives its tasks in batches.
class Intake {
 public:
  using Answer = std::function<void(Result<Submitted>)>;

  // All arguments must outlive this object.
  Intake(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
         base::Clock& clock)
      : options_(options), store_(store), core_(core), clock_(clock) {}

  // Called for each accepted task that has requested notifications.
  using Hear = std::function<void(const core::TaskSubmitted&)>;
  void OnNotify(Hear hear) { wants_notices_ = std::move(hear); }
  // Must be called once, before all other functions. Returns the errors of the store.
  Result<Unit> Open();

  // Records the output files of an unfinished task that an earlier carmad accepted.
  void NoteOutputs(const store::StoredTask& task);

  // Queues a submission for AcceptShare() or RefuseAll().
  void Submit(TaskList tasks, const Submitter& submitter, Answer answer);
  // Stores as many waiting submissions as one turn allows (EngineOptions::turn_share) and reports
  // which of them were accepted or refused. Adds TaskSubmitted to `events` for some of the accepted
  // tasks, again about as many as one turn allows. Returns kIo if the store failed. The submissions
  // being stored are then refused, but tasks accepted earlier still reach the core.
  //
  // Each submission is checked separately and refused with
  // - kInvalid if it has no tasks, names an unknown class, exceeds a limit or names a wrong signal;
  // - kDenied if the user may not use the account;
  // - kConflict if a task can never fit, the queue is full or another submission has used the name;
  // - kNotFound if a dependency is unknown.
  Result<Unit> AcceptShare(std::vector<core::Event>& events);
  // True if AcceptShare() must be called again.
  bool HasMore() const;
  void RefuseAll(const base::Error& why);

  // Number of tasks sent to the core since startup.
  std::uint64_t accepted() const { return accepted_; }
  // True if the task has been accepted but not yet sent to the core.
  bool IsUntold(core::TaskId id) const;

  // Returns the request. If it equals the previous one, the two share memory.
  base::CopyOnWrite<core::TaskRequest> Shared(core::TaskRequest request);
  // Fills in the final states of dependencies that the core no longer knows.
  Result<Unit> FillDependencies(base::CopyOnWrite<core::TaskRequest>& request);

  // Checks an edit of an unfinished task's description from `was` to `wanted`, and returns the
  // edited request. Returns
  // - kInvalid if the class is unknown, a limit is exceeded or a signal is wrong;
  // - kDenied if the user may not use the account;
  // - kConflict if the task can never fit, a dependency ended in the wrong state, or the task has
  //   already run longer than its new time limit;
  // - kNotFound if a dependency is unknown or not older than the task.
  Result<base::CopyOnWrite<core::TaskRequest>> CheckEdit(const core::TaskRecord& record,
                                                         const task::TaskSpec& was,
                                                         const task::TaskSpec& wanted);

  // Checks the limits on waiting tasks for a whole submission. Tasks that have not reached the core
  // yet count only if they belong to the same user.
  Result<Unit> CheckQueueLimits(const TaskList& tasks, const Submitter& by) const;

  // Checks whether a finished task may be requeued. returning: number of the user's other tasks
  // that are being requeued at the same time. Returns kInvalid if a limit is exceeded, kDenied if
  // the user may no longer use the account, and kConflict if the queue is full.
  Result<Unit> CheckReturn(const core::TaskRequest& request, const std::string& name,
                           std::size_t returning);

  // Returns the input for estimating a task. The first call after the task was accepted takes it
  // from memory; later calls read it from the store.
  Result<EstimateJob> JobForEstimate(core::TaskId id);

 private:
  struct Submission {
    TaskList tasks;
    Submitter submitter;
    Answer answer;
  };
  // A submission that is being stored in pieces.
  struct Arrival {
    Submission submission;
    std::size_t checked = 0;  // number of checked tasks
    std::size_t put = 0;
    std::string warning;                    // Submitted::warning
    core::TaskId first{};                   // set once the first piece is stored
    base::Time submitted{};                 // same for all tasks
    std::vector<core::TaskSubmitted> news;  // events for its stored tasks
    std::vector<std::size_t> notified;      // indices of those that have requested notifications
  };
  // Accepted tasks with consecutive numbers.
  struct Accepted {
    std::vector<core::TaskSubmitted> news;
    std::size_t told = 0;
  };

  static void Refuse(Submission& submission, const base::Error& why);
  bool IsLarge(const Submission& submission) const;
  std::size_t PieceEnd(const TaskList& tasks, std::size_t begin) const;
  Result<Unit> AcceptSmall(std::vector<core::Event>& events);
  Result<Submitted> Accept(const Submission& submission, std::vector<core::TaskSubmitted>& news);
  Result<Unit> AcceptPiece();
  Result<std::optional<Submitted>> CheckPiece(Arrival& arrival);
  Result<Unit> PutPiece(Arrival& arrival);
  // Refuses the submission that is being stored in pieces. Returns `why` if it is kIo, which means
  // that the store failed; otherwise success.
  Result<Unit> GiveUpArrival(const base::Error& why);
  void TakeBack();
  bool WaitsForUntold(const std::vector<core::TaskSubmitted>& news) const;
  Result<Unit> Tell(std::vector<core::Event>& events);
  // Applies the default time limit if the request has none, and caps the limit at the longest one
  // allowed.
  void FillTimeLimit(core::TaskRequest& request) const;
  Result<core::TaskSubmitted> Put(const Submission& submission, std::size_t index,
                                  core::TaskId first, base::Time submitted,
                                  task::SpecWriter& writer, std::string& warning);
  // Sets `warning`, if it is still empty, when another unfinished task of the user writes to the
  // same output file. first: the first task of this submission; its tasks are not compared with
  // each other.
  void WarnOfSharedOutput(const store::StoredTask& task, const task::TaskSpec& spec,
                          core::TaskId first, std::string& warning);
  // Stores the rows that describe the submission as a whole.
  Result<Unit> PutAsWhole(const Submission& submission, core::TaskId first, base::Time submitted);
  // The earlier submission with the same name; empty if the name is new.
  Result<std::optional<Submitted>> Repeated(const Submission& submission);
  Result<Unit> CheckRoom(std::size_t wanted, std::uint32_t uid, std::string_view user);
  std::size_t QueuedOf(std::uint32_t uid);
  // Checks the tasks in [begin, end). Returns a warning, or an empty string.
  Result<std::string> Check(const Submission& submission, std::size_t begin, std::size_t end);
  // Number of tasks that are accepted or being stored but have not reached the core. Counts all
  // tasks if `uid` is empty, otherwise only those of this user.
  std::size_t OnTheWay(std::optional<std::uint32_t> uid) const;
  Result<Unit> RefuseBeyondLimits(const core::TaskRequest& request, const std::string& name,
                                  std::size_t more, const core::TaskRequest* counted = nullptr,
                                  std::span<const core::AlikeTasks> beside = {}) const;
  Result<Unit> CheckEntitlements(const Submission& submission, std::size_t begin,
                                 std::size_t end) const;
  Result<Unit> RefuseWhatNeverFits(const Submission& submission, std::size_t begin,
                                   std::size_t end) const;
  // Returns a warning if a task can never run because another task did not end as required;
  // otherwise an empty string. The submission is accepted anyway, because a script may submit a
  // chain of tasks whose first task fails before the next one is submitted.
  Result<std::string> CheckDependencies(const TaskList& tasks, std::size_t begin, std::size_t end);
  // Must be called before KeepForEstimate, which moves the description out of the submission.
  bool WantsNotices(const Submission& submission, std::size_t index) const;
  void KeepForEstimate(core::TaskId id, Submission& submission, std::size_t index);

  Hear wants_notices_;
  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  base::CopyOnWrite<core::TaskRequest> last_request_;  // the last result of Shared
  std::optional<core::TaskId> next_id_;
  std::deque<Submission> waiting_;  // submissions that fit into one turn
  std::deque<Arrival> large_;       // larger submissions; the first is being stored
  std::deque<Accepted> untold_;     // accepted tasks that the core does not have yet
  std::uint64_t accepted_ = 0;
  // Number of tasks accepted in the current, uncommitted transaction.
  std::size_t accepted_now_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> accepted_of_;  // accepted_now_ by user
  std::unordered_map<std::uint32_t, std::size_t>
      queued_of_;                       // queued tasks by user; counted once per turn
  std::vector<core::TaskId> given_up_;  // first tasks of the submissions to delete
  bool cannot_take_back_ = false;       // the store refused the last deletion
  // The last task accepted for each output file, by a hash of user and path.
  std::unordered_map<std::size_t, core::TaskId> outputs_;
  // Accepted tasks without their environments, kept until their estimates are requested.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
};

// Sets `known_final` for all dependencies on tasks that have ended. Returns kNotFound for a
// dependency on an unknown task, and the errors of the store.
Result<Unit> FillKnownEnds(store::Store& store, std::vector<core::Dependency>& dependencies);

}  // namespace carma::daemon
