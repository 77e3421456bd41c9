// What comes in: submissions are checked, numbered and kept before the core hears of them.
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

// Who submits, as the kernel tells.
struct Submitter {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string remark = {};  // what else the history says of it, one line; may be empty
  // Names the submission: once accepted, the same again is answered with its tasks. Empty:
  // nameless.
  std::string request = {};
  // kLater: a power failure ends the process that it is for.
  store::Durability durability = store::Durability::kNow;
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
  bool repeated = false;  // accepted before, by its name
};

// A turn takes no more than a share (EngineOptions::turn_share) of what comes in, so that nobody
// waits long for it. A submission that is larger is checked and put in pieces, one each turn;
// nobody sees any of it before its last piece is durable. The core hears of it in shares too.
class Intake {
 public:
  using Answer = std::function<void(base::Result<Submitted>)>;

  // All outlive it. The core is only asked.
  Intake(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
         base::Clock& clock)
      : options_(options), store_(store), core_(core), clock_(clock) {}

  // Hears of each task that is put and says whom to tell of it.
  using Hear = std::function<void(core::TaskId, std::optional<core::TaskId> array)>;
  void OnNotify(Hear hear) { wants_notices_ = std::move(hear); }
  // Once, first. Errors: those of the store.
  base::Result<base::Unit> Open();

  // Waits for AcceptShare() or RefuseAll().
  void Submit(TaskList tasks, const Submitter& submitter, Answer answer);
  // Makes a share of what waits durable, answers those who are accepted or refused by that, and
  // adds TaskSubmitted of a share of what was accepted, now or before. Each submission stands alone
  // (kInvalid: no task, an unknown class, beyond a limit; kDenied: not his account; kConflict: can
  // never fit, queue full, another submission had its name; kNotFound: depends on an unknown task).
  // Errors: kIo of the store: what was to be accepted is refused; what the core is to hear is in
  // `events` all the same, or comes with a later share.
  base::Result<base::Unit> AcceptShare(std::vector<core::Event>& events);
  // There is something for another share.
  bool HasMore() const;
  void RefuseAll(const base::Error& why);

  // The task is accepted, and the core has not heard of it yet.
  bool IsUntold(core::TaskId id) const;

  // Kept once by all in a row that ask for the same.
  base::CopyOnWrite<core::TaskRequest> Shared(core::TaskRequest request);
  // How tasks ended that the core has forgotten and this one depends on.
  base::Result<base::Unit> FillDependencies(base::CopyOnWrite<core::TaskRequest>& request);

  // The request of a task that the core holds, as its changed description makes it. Errors:
  // kInvalid, kDenied: beyond limits or not his account; kConflict: can never fit; kNotFound:
  // depends on an unknown task, or on one that is not older.
  base::Result<base::CopyOnWrite<core::TaskRequest>> CheckEdit(const core::TaskRecord& record,
                                                               const task::TaskSpec& wanted);

  // What an estimate is asked with: of a task that this object has accepted from memory, once; else
  // from the store.
  base::Result<EstimateJob> JobForEstimate(core::TaskId id);

 private:
  struct Submission {
    TaskList tasks;
    Submitter submitter;
    Answer answer;
  };
  // One that is taken in pieces.
  struct Arrival {
    Submission submission;
    std::size_t checked = 0;  // of its tasks
    std::size_t put = 0;
    core::TaskId first{};                   // once a piece is put
    base::Time submitted{};                 // all of it at one time
    std::vector<core::TaskSubmitted> news;  // of what is put
  };
  // Accepted tasks, their numbers in a row.
  struct Accepted {
    std::vector<core::TaskSubmitted> news;
    std::size_t told = 0;
  };

  static void Refuse(Submission& submission, const base::Error& why);
  bool IsLarge(const Submission& submission) const;
  std::size_t PieceEnd(const TaskList& tasks, std::size_t begin) const;
  base::Result<base::Unit> AcceptSmall(std::vector<core::Event>& events);
  base::Result<Submitted> Accept(const Submission& submission,
                                 std::vector<core::TaskSubmitted>& news);
  base::Result<base::Unit> AcceptPiece();
  base::Result<std::optional<Submitted>> CheckPiece(Arrival& arrival);
  base::Result<base::Unit> PutPiece(Arrival& arrival);
  // Returns the trouble of the store, if that is why.
  base::Result<base::Unit> GiveUpArrival(const base::Error& why);
  void TakeBack();
  bool WaitsForUntold(const std::vector<core::TaskSubmitted>& news) const;
  base::Result<base::Unit> Tell(std::vector<core::Event>& events);
  base::Result<core::TaskSubmitted> Put(const Submission& submission, std::size_t index,
                                        core::TaskId first, base::Time submitted,
                                        task::SpecWriter& writer);
  // What the books say of the submission as a whole.
  base::Result<base::Unit> PutAsWhole(const Submission& submission, core::TaskId first,
                                      base::Time submitted);
  // Empty: it is new.
  base::Result<std::optional<Submitted>> Repeated(const Submission& submission);
  base::Result<base::Unit> CheckRoom(const Submission& submission);
  std::size_t QueuedOf(std::uint32_t uid);
  // The tasks in [begin, end).
  base::Result<base::Unit> Check(const Submission& submission, std::size_t begin, std::size_t end);
  // Accepted, or getting there, and not yet with the core; of this user, or of all.
  std::size_t OnTheWay(std::optional<std::uint32_t> uid) const;
  base::Result<base::Unit> RefuseBeyondLimits(const core::TaskRequest& request,
                                              const std::string& name, std::size_t more) const;
  // Of what comes at the same time only the same user's counts as there.
  base::Result<base::Unit> CheckQueueLimits(const Submission& submission) const;
  base::Result<base::Unit> CheckEntitlements(const Submission& submission, std::size_t begin,
                                             std::size_t end) const;
  base::Result<base::Unit> RefuseWhatNeverFits(const Submission& submission, std::size_t begin,
                                               std::size_t end) const;
  base::Result<base::Unit> CheckDependencies(const TaskList& tasks, std::size_t begin,
                                             std::size_t end);
  void KeepForEstimate(core::TaskId id, Submission& submission, std::size_t index);

  Hear wants_notices_;
  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  base::CopyOnWrite<core::TaskRequest> last_request_;  // of Shared
  std::optional<core::TaskId> next_id_;
  std::deque<Submission> waiting_;                              // that fit a share
  std::deque<Arrival> large_;                                   // of which the first is being taken
  std::deque<Accepted> untold_;                                 // what the core is yet to hear of
  std::size_t accepted_now_ = 0;                                // by this share, not yet durable
  std::unordered_map<std::uint32_t, std::size_t> accepted_of_;  // the same by user
  std::unordered_map<std::uint32_t, std::size_t>
      queued_of_;                       // by user, once counted for this share
  std::vector<core::TaskId> given_up_;  // first numbers of what is to be taken back
  bool cannot_take_back_ = false;       // the store refused the last time
  // Of accepted tasks, without their environments, until their estimates are asked.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
};

}  // namespace carma::daemon
