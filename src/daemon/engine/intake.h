// Incoming submissions: checked, numbered and stored before the core gets them.
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
  // Name of the submission: once accepted, a repetition is answered with its tasks. Empty: none.
  std::string request = {};
  // kLater: for leases, whose process a power failure ends too.
  store::Durability durability = store::Durability::kNow;
  std::optional<core::TaskId> task = {};  // the running task whose process submits
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
  bool repeated = false;  // accepted before under this name
  // For its user: a task can never run, or loses its output; empty: none.
  std::string warning = {};
};

// A turn takes only a share (EngineOptions::turn_share) of the submissions, so that other calls do
// not wait long. A larger submission is checked and stored in pieces, one per turn, and stays
// invisible until its last piece is durable. The core gets it in shares too.
class Intake {
 public:
  using Answer = std::function<void(Result<Submitted>)>;

  // All arguments must outlive it. Only reads the core.
  Intake(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
         base::Clock& clock)
      : options_(options), store_(store), core_(core), clock_(clock) {}

  // Called for each stored task that has notifications.
  using Hear = std::function<void(core::TaskId, std::optional<core::TaskId> array)>;
  void OnNotify(Hear hear) { wants_notices_ = std::move(hear); }
  // Called once, first. Errors: those of the store.
  Result<Unit> Open();

  // Queues a submission for AcceptShare() or RefuseAll().
  void Submit(TaskList tasks, const Submitter& submitter, Answer answer);
  // Stores a share of the waiting submissions, answers those thereby accepted or refused, and adds
  // TaskSubmitted for a share of the accepted tasks. Submissions are judged separately (kInvalid:
  // no task, an unknown class, beyond a limit; kDenied: an account that is not the user's;
  // kConflict: can never fit, queue full, name used by another submission; kNotFound: depends on an
  // unknown task). Errors: kIo of the store: this share is refused; events for the core are in
  // `events` anyway, or come with a later share.
  Result<Unit> AcceptShare(std::vector<core::Event>& events);
  // Whether there is work for another share.
  bool HasMore() const;
  void RefuseAll(const base::Error& why);

  // Tasks sent to the core since the start.
  std::uint64_t accepted() const { return accepted_; }
  // Whether the task is accepted but not yet sent to the core.
  bool IsUntold(core::TaskId id) const;

  // Shares memory between successive equal requests.
  base::CopyOnWrite<core::TaskRequest> Shared(core::TaskRequest request);
  // Fills in the final states of dependencies that the core has already dropped.
  Result<Unit> FillDependencies(base::CopyOnWrite<core::TaskRequest>& request);

  // The new request of an unfinished task after an edit. Errors: kInvalid, kDenied: beyond limits
  // or an account that is not the user's; kConflict: can never fit, or depends on a task that ended
  // otherwise; kNotFound: depends on an unknown task, or on one that is not older.
  Result<base::CopyOnWrite<core::TaskRequest>> CheckEdit(const core::TaskRecord& record,
                                                         const task::TaskSpec& wanted);

  // Whether an ended task may be requeued. returning: the user's other tasks that are requeued in
  // this turn. Errors: kInvalid: beyond a limit; kDenied: the account is no longer the user's;
  // kConflict: the queue is full.
  Result<Unit> CheckReturn(const core::TaskRequest& request, const std::string& name,
                           std::size_t returning);

  // The job for an estimate: for a newly accepted task from memory, once; else from the store.
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
    std::size_t checked = 0;  // of its tasks
    std::size_t put = 0;
    std::string warning;                    // Submitted::warning
    core::TaskId first{};                   // once a piece is put
    base::Time submitted{};                 // one time for all tasks
    std::vector<core::TaskSubmitted> news;  // for stored tasks
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
  // Refuses the submission being stored. Returns the store's error, if that is the cause.
  Result<Unit> GiveUpArrival(const base::Error& why);
  void TakeBack();
  bool WaitsForUntold(const std::vector<core::TaskSubmitted>& news) const;
  Result<Unit> Tell(std::vector<core::Event>& events);
  Result<core::TaskSubmitted> Put(const Submission& submission, std::size_t index,
                                  core::TaskId first, base::Time submitted,
                                  task::SpecWriter& writer, std::string& warning);
  // Warns, unless there is a warning, of an unfinished task of the user that writes to a file of
  // this one. first: of the same submission, whose tasks are not compared.
  void WarnOfSharedOutput(const store::StoredTask& task, const task::TaskSpec& spec,
                          core::TaskId first, std::string& warning);
  // Adds to output_order_ and forgets the oldest file beyond a limit.
  void KeepOutput(std::size_t key, core::TaskId task);
  // Stores the rows that concern the whole submission.
  Result<Unit> PutAsWhole(const Submission& submission, core::TaskId first, base::Time submitted);
  // The earlier submission of that name; empty: it is new.
  Result<std::optional<Submitted>> Repeated(const Submission& submission);
  Result<Unit> CheckRoom(std::size_t wanted, std::uint32_t uid, std::string_view user);
  std::size_t QueuedOf(std::uint32_t uid);
  // Checks the tasks in [begin, end). Returns a warning, or an empty text.
  Result<std::string> Check(const Submission& submission, std::size_t begin, std::size_t end);
  // Tasks accepted or being stored, but not yet with the core; of this user, or of all.
  std::size_t OnTheWay(std::optional<std::uint32_t> uid) const;
  Result<Unit> RefuseBeyondLimits(const core::TaskRequest& request, const std::string& name,
                                  std::size_t more,
                                  const core::TaskRequest* counted = nullptr) const;
  // Checks the limits on queued tasks. Of submissions that arrive at the same time only those of
  // the same user count.
  Result<Unit> CheckQueueLimits(const Submission& submission) const;
  Result<Unit> CheckEntitlements(const Submission& submission, std::size_t begin,
                                 std::size_t end) const;
  Result<Unit> RefuseWhatNeverFits(const Submission& submission, std::size_t begin,
                                   std::size_t end) const;
  // Which task can never run because of how another one ended; empty: none. A submission is
  // accepted nevertheless: in a script that submits a chain, the first task may fail before the
  // next one is submitted.
  Result<std::string> CheckDependencies(const TaskList& tasks, std::size_t begin, std::size_t end);
  void KeepForEstimate(core::TaskId id, Submission& submission, std::size_t index);

  Hear wants_notices_;
  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  base::CopyOnWrite<core::TaskRequest> last_request_;  // of Shared
  std::optional<core::TaskId> next_id_;
  std::deque<Submission> waiting_;  // small enough for a share
  std::deque<Arrival> large_;       // the first is being stored
  std::deque<Accepted> untold_;     // not yet sent to the core
  std::uint64_t accepted_ = 0;
  std::size_t accepted_now_ = 0;                                // by this share, not yet durable
  std::unordered_map<std::uint32_t, std::size_t> accepted_of_;  // the same by user
  std::unordered_map<std::uint32_t, std::size_t>
      queued_of_;                       // by user, once counted for this share
  std::vector<core::TaskId> given_up_;  // first numbers of tasks to delete
  bool cannot_take_back_ = false;       // the store refused the last time
  // The last task accepted for each output file, by a hash of its user and the path.
  std::unordered_map<std::size_t, core::TaskId> outputs_;
  std::deque<std::pair<std::size_t, core::TaskId>> output_order_;  // what was put, oldest first
  // Accepted tasks, without their environments, until their estimates are requested.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
};

}  // namespace carma::daemon
