// Accepts submissions: checks, numbers and stores their tasks before the core gets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
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

// The submitter, as identified by the kernel.
struct Submitter {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string remark = {};  // an extra line for the history, or empty
  // The name of the submission. If an accepted name is repeated, the answer is the earlier
  // submission's tasks. Empty: none.
  std::string request = {};
  // kLater for leases, because a power failure also ends the process behind a lease.
  store::Durability durability = store::Durability::kNow;
  std::optional<core::TaskId> task = {};  // the running task whose process submits
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
  bool repeated = false;  // a submission of this name was accepted before
  // A warning for the user that a task can never run or loses its output; empty: none.
  std::string warning = {};
};

// A turn handles only a share (EngineOptions::turn_share) of the submissions, so that other calls
// do not wait long. A larger submission is checked and stored in pieces, one per turn, and stays
// invisible until its last piece is durable. The core gets its tasks in shares too.
class Intake {
 public:
  using Answer = std::function<void(Result<Submitted>)>;

  // All arguments must outlive this object. It only reads the core.
  Intake(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
         base::Clock& clock)
      : options_(options), store_(store), core_(core), clock_(clock) {}

  // Called for each stored task that has notifications.
  using Hear = std::function<void(core::TaskId, std::optional<core::TaskId> array)>;
  void OnNotify(Hear hear) { wants_notices_ = std::move(hear); }
  // Must be called once, before all other calls. Errors: those of the store.
  Result<Unit> Open();

  // Remembers the output files of an unfinished task from before a restart.
  void NoteOutputs(const store::StoredTask& task);

  // Queues a submission for AcceptShare() or RefuseAll().
  void Submit(TaskList tasks, const Submitter& submitter, Answer answer);
  // Stores a share of the waiting submissions, answers the submissions that are now accepted or
  // refused, and adds TaskSubmitted for a share of the accepted tasks. Each submission is checked
  // separately (kInvalid: no task, an unknown class, beyond a limit; kDenied: an account that is
  // not the user's; kConflict: can never fit, queue full, name used by another submission;
  // kNotFound: depends on an unknown task). Errors: kIo of the store: this share is refused. Tasks
  // accepted before still reach the core, in `events` or with a later share.
  Result<Unit> AcceptShare(std::vector<core::Event>& events);
  // Whether there is work left for another share.
  bool HasMore() const;
  void RefuseAll(const base::Error& why);

  // Number of tasks sent to the core since the start.
  std::uint64_t accepted() const { return accepted_; }
  // Whether the task is accepted but was not sent to the core yet.
  bool IsUntold(core::TaskId id) const;

  // Lets successive equal requests share memory.
  base::CopyOnWrite<core::TaskRequest> Shared(core::TaskRequest request);
  // Fills in the final states of dependencies that the core has already dropped.
  Result<Unit> FillDependencies(base::CopyOnWrite<core::TaskRequest>& request);

  // The new request of an unfinished task after an edit. Errors: kInvalid: beyond limits; kDenied:
  // an account that is not the user's; kConflict: can never fit, or depends on a task that ended in
  // another way; kNotFound: depends on an unknown task, or on a task that is not older.
  Result<base::CopyOnWrite<core::TaskRequest>> CheckEdit(const core::TaskRecord& record,
                                                         const task::TaskSpec& wanted);

  // Whether an ended task may be requeued. returning: number of the user's other tasks that are
  // requeued in this turn. Errors: kInvalid: beyond a limit; kDenied: the account is no longer the
  // user's; kConflict: the queue is full.
  Result<Unit> CheckReturn(const core::TaskRequest& request, const std::string& name,
                           std::size_t returning);

  // The input for an estimate. Taken from memory the first time after the task was accepted, else
  // from the store.
  Result<EstimateJob> JobForEstimate(core::TaskId id);

 private:
  struct Submission {
    TaskList tasks;
    Submitter submitter;
    Answer answer;
  };
  // A submission that is stored in pieces.
  struct Arrival {
    Submission submission;
    std::size_t checked = 0;  // number of checked tasks
    std::size_t put = 0;
    std::string warning;                    // Submitted::warning
    core::TaskId first{};                   // set once the first piece is stored
    base::Time submitted{};                 // the same for all tasks
    std::vector<core::TaskSubmitted> news;  // events for its stored tasks
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
  // Refuses the submission that is being stored. Returns `why` if it is an error of the store.
  Result<Unit> GiveUpArrival(const base::Error& why);
  void TakeBack();
  bool WaitsForUntold(const std::vector<core::TaskSubmitted>& news) const;
  Result<Unit> Tell(std::vector<core::Event>& events);
  Result<core::TaskSubmitted> Put(const Submission& submission, std::size_t index,
                                  core::TaskId first, base::Time submitted,
                                  task::SpecWriter& writer, std::string& warning);
  // Sets `warning`, unless it is already set, if an unfinished task of the user writes to the same
  // output file. first: the first task of this submission, because tasks of the same submission are
  // not compared.
  void WarnOfSharedOutput(const store::StoredTask& task, const task::TaskSpec& spec,
                          core::TaskId first, std::string& warning);
  // Stores rows about the submission as a whole.
  Result<Unit> PutAsWhole(const Submission& submission, core::TaskId first, base::Time submitted);
  // The earlier submission of that name; empty if the name is new.
  Result<std::optional<Submitted>> Repeated(const Submission& submission);
  Result<Unit> CheckRoom(std::size_t wanted, std::uint32_t uid, std::string_view user);
  std::size_t QueuedOf(std::uint32_t uid);
  // Checks the tasks in [begin, end). Returns a warning, or an empty text.
  Result<std::string> Check(const Submission& submission, std::size_t begin, std::size_t end);
  // Number of tasks that are accepted or being stored but not in the core yet, of this user or of
  // all.
  std::size_t OnTheWay(std::optional<std::uint32_t> uid) const;
  Result<Unit> RefuseBeyondLimits(const core::TaskRequest& request, const std::string& name,
                                  std::size_t more,
                                  const core::TaskRequest* counted = nullptr) const;
  // Checks the limits on queued tasks. Among submissions that arrive at the same time, only those
  // of the same user count.
  Result<Unit> CheckQueueLimits(const Submission& submission) const;
  Result<Unit> CheckEntitlements(const Submission& submission, std::size_t begin,
                                 std::size_t end) const;
  Result<Unit> RefuseWhatNeverFits(const Submission& submission, std::size_t begin,
                                   std::size_t end) const;
  // A warning that a task can never run because of how another task ended; empty: none. The
  // submission is accepted nevertheless, because in a script that submits a chain the first task
  // may fail before the next is submitted.
  Result<std::string> CheckDependencies(const TaskList& tasks, std::size_t begin, std::size_t end);
  void KeepForEstimate(core::TaskId id, Submission& submission, std::size_t index);

  Hear wants_notices_;
  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  base::CopyOnWrite<core::TaskRequest> last_request_;  // the last result of Shared
  std::optional<core::TaskId> next_id_;
  std::deque<Submission> waiting_;  // submissions that fit into a share
  std::deque<Arrival> large_;       // larger ones; the first is being stored
  std::deque<Accepted> untold_;     // accepted tasks that the core does not have yet
  std::uint64_t accepted_ = 0;
  // Number of tasks accepted in this share, not yet durable.
  std::size_t accepted_now_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> accepted_of_;  // accepted_now_ by user
  std::unordered_map<std::uint32_t, std::size_t>
      queued_of_;                       // queued tasks by user; counted at most once for each share
  std::vector<core::TaskId> given_up_;  // first numbers of tasks to delete
  bool cannot_take_back_ = false;       // the store refused the last deletion
  // The last task accepted for each output file, by a hash of its user and the path.
  std::unordered_map<std::size_t, core::TaskId> outputs_;
  // Accepted tasks, without their environments, until their estimates are requested.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
};

}  // namespace carma::daemon
