// The daemon without its event loop. Each turn passes events to the core, stores the core's
// decisions and then carries them out. Every change is durable before it is carried out or
// acknowledged. Single-threaded.
//
// Intake handles submissions. Starts handles launches and how tasks share GPUs. Ends finds out why
// tasks ended. The engine's own code is in engine.cc (turns), engine_start.cc (taking over from an
// earlier run) and engine_requests.cc (requests other than submissions).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/scheduler/scheduler.h"
#include "daemon/engine/ends.h"
#include "daemon/engine/engine_options.h"
#include "daemon/engine/estimates.h"
#include "daemon/engine/intake.h"
#include "daemon/engine/progress_board.h"
#include "daemon/engine/reservations.h"
#include "daemon/engine/starts.h"
#include "daemon/gpus/attribution.h"
#include "daemon/gpus/process_faces.h"
#include "store/batch.h"
#include "store/store.h"
#include "task/shim/launcher.h"

namespace carma::daemon {

class Engine {
 public:
  // The services that the engine needs from the loop around it.
  class Host : public GpuEvidence {
   public:
    virtual void RequestTurn() = 0;  // the loop must call Turn() once, soon
    // For each job, the loop must call TakeEstimate() or Post(EstimateReady).
    virtual void RequestEstimates(std::vector<EstimateJob> jobs) = 0;
    virtual void WakeAt(base::Time when) = 0;  // the loop must post WakeUp at this time
    // Called when the store has failed. The loop must call Turn() again a second later.
    virtual void RetryTurnLater() = 0;
    virtual void TaskChanged(const core::TaskChanged& change) = 0;  // the change is durable
    virtual void NoticesChanged() {}  // the store has new notices or new results
    // Called once the rows are durable.
    virtual void JobReturnsChanged(const std::vector<store::JobReturnRow>&) {}
  };
  using Done = std::function<void(Result<Unit>)>;

  Engine(EngineOptions options, store::Store& store, task::Launcher& launcher, base::Clock& clock,
         Host& host);

  // Restores the state left by an earlier run: drained GPUs, queued tasks and running tasks
  // (through their shims).
  Result<Unit> Start(std::vector<core::GpuInfo> gpus);

  // Calls `answer` once the tasks are durable, or with an error listed at Intake::AcceptShare().
  void Submit(TaskList tasks, const Submitter& submitter, Intake::Answer answer);
  // Queues the event for the next turn. `done` is called once its effects are durable, or with kIo
  // if they will become durable only later.
  void Post(core::Event event, Done done = nullptr);
  // Posts EstimateReady and stores the forecast. If there are many results, each turn handles only
  // some of them.
  void TakeEstimate(EstimateResult result);
  // Restores the shipped calibration. `done` is called once this is durable.
  void ForgetCalibration(Done done);
  // Adds a line to the task's history about the change that is about to be posted.
  void Note(core::TaskId id, const std::string& what);
  // Requeues a finished task, or stops a running task and then requeues it. `what` is added to the
  // history, as in Note().
  void Requeue(core::TaskId id, const std::string& what, Done done);
  // As Intake::CheckQueueLimits().
  Result<Unit> CheckQueueLimits(const TaskList& tasks, const Submitter& by) const {
    return intake_.CheckQueueLimits(tasks, by);
  }
  // Checks an edit of an unfinished task's description from `was` to `wanted`, and returns the
  // edited request. Returns the errors of Intake::CheckEdit(). Returns kUnavailable if the task is
  // still being accepted, if another change to it is not stored yet, or if the edit affects a
  // memory estimate in progress.
  Result<base::CopyOnWrite<core::TaskRequest>> CheckEdit(core::TaskId id, const task::TaskSpec& was,
                                                         const task::TaskSpec& wanted);
  // Applies the edit that CheckEdit() has just returned. If the task holds GPUs, only the changes
  // listed at core::TaskEdited are allowed. what: a line for the history, or empty for none.
  void Edit(core::TaskId id, const task::TaskSpec& wanted,
            base::CopyOnWrite<core::TaskRequest> edited, const std::string& what, Done done);
  // Stores the beginning or end of a drain and posts it to the core (core::DrainRequested,
  // ResumeRequested).
  void Drain(const core::DrainRequested& drain, Done done = nullptr);
  void Resume(const core::ResumeRequested& resume, Done done = nullptr);
  // Closes the server because the machine is about to shut down. It stays closed until the machine
  // has restarted (EngineOptions::machine_start) or Open() is called.
  void Close(const core::ServerClosed& closing, Done done = nullptr);
  void Open(Done done = nullptr);
  // When and why the server closes; empty if the server is open.
  const std::optional<core::ServerClosed>& closing() const { return closing_; }
  // Assigns a number to a reservation, stores it and passes it to the core. Returns the errors of
  // Reservations::Add().
  Result<core::ReservationId> Book(core::Reservation booking, Done done = nullptr);
  // Removes a reservation at the request of the user `who`. Returns kNotFound if it does not exist.
  Result<Unit> Unbook(core::ReservationId id, const std::string& who, Done done = nullptr);
  const Reservations& reservations() const { return reservations_; }
  // Applies new options. Those that need a restart must still have their old values. Running
  // attempts keep the values that they started with.
  void Follow(const EngineOptions& options);
  // Adds a notice about the server (not about a task's state), to be stored in the next turn.
  void AddNotice(store::Notice notice);
  // Stores the result of sending a notice. Final results are also added to the history.
  void TakeNoticeResult(store::Notice notice);
  // Stores how far requeueing a job has progressed, and adds `told` to the history unless it is
  // empty. `done` is called once both are durable.
  void KeepJobReturn(store::JobReturnRow row, const std::string& told, Done done);
  // Adds rows to be stored in the next turn, even if no event arrives.
  void AddUsage(std::vector<store::GpuUsage> rows, std::vector<store::LineWait> line_waits);

  // Passes the posted events to the core, stores its decisions and carries them out.
  void Turn();
  // Must be the last call before destruction. Drops pending requests and accepts no new ones.
  void Stop();
  void PollLauncher();
  // The running task that a process belongs to; empty if there is none.
  std::optional<core::TaskId> TaskOfProcess(pid_t pid);

  const core::Scheduler& scheduler() const { return scheduler_; }
  const task::CgroupControls& controls() const { return options_.controls; }
  const NoticeRules& notice_rules() const { return options_.notices; }
  // All attempts that hold GPUs, as they would be recorded if they ended now.
  std::vector<store::EndedAttempt> RunningAttempts() const;
  Attribution& attribution() { return attribution_; }
  ProcessFaces& faces() { return faces_; }
  ProgressBoard& progress() { return progress_; }
  const ProgressBoard& progress() const { return progress_; }
  // Where to read the progress of a running attempt, which must have a shim.
  ProgressBoard::Place ProgressOf(const core::TaskRecord& record) const;
  store::Store& store() { return store_; }
  // Why the store refuses writes (for example a full disk or a removed database); empty if it
  // accepts them.
  const std::string& store_trouble() const { return store_trouble_; }
  // Number of accepted tasks that have reached the core since this engine started.
  std::uint64_t submissions() const { return intake_.accepted(); }
  std::vector<std::string> MpsServers() const { return starts_.MpsServers(); }
  std::optional<core::GpuIndex> GpuByUuid(const std::string& uuid) const;

 private:
  // Decisions that are not yet durable.
  struct Decided {
    store::Batch rows;
    std::vector<core::Action> actions;
    std::vector<Done> done;
    bool Empty() const { return rows.Empty() && actions.empty() && done.empty(); }
  };
  // GPUs of a running task that this carmad does not manage, for example because of daemon.gpus.
  struct Unmanaged {
    std::vector<core::Placement> placement;
    std::vector<std::string> uuids;
  };

  // ---- engine_start.cc ----
  Result<Unit> RestoreAttempts();
  Result<Unit> TakeOver();
  Result<Unit> RestoreReservations();
  Result<Unit> RestoreClosing();
  Result<core::TaskRecord> Translated(store::StoredTask stored);
  void AddUnmanaged(store::RecordRow& row);
  bool FollowClock(core::TaskRecord& record) const;
  // ---- engine.cc, engine_requests.cc ----
  bool IsBeingChanged(core::TaskId id) const;
  std::optional<std::vector<core::Taken>> EndedFor(const core::PolicyConfig& policy);
  void LookAfterStore();
  void NoteStoreTrouble(const base::Error& why);
  bool AcceptSubmissions();
  void HandEarlyEvents();
  void HandEstimates();
  void AnswerWithTrouble();
  void Collect(std::vector<core::Action> actions);
  void NoteChange(const core::TaskChanged& change);
  void NoteAsked(core::TaskId id);
  void NoteJobReturn(const core::TaskRecord& record);
  store::EndedAttempt RowOf(const core::AttemptEnded& ended) const;
  void NoteDrains();
  // Returns false if the store refused the decisions. None is carried out in that case, and the
  // next call tries again.
  bool Flush();
  void PerformAll(Decided decided);
  void Perform(const core::Action& action, std::vector<EstimateJob>& estimates);
  void Forget(const core::TaskRecord& record);
  void TakeShimEvent(const task::ShimEvent& event);
  // Logs that the kernel does not limit the memory of the task's control group, even though it
  // should.
  void NoteNoLimit(const core::TaskRecord& record, const std::string& why);
  std::vector<std::string> Uuids(const core::TaskRecord& record) const;

  EngineOptions options_;  // also read by Intake, Starts and Ends
  store::Store& store_;
  task::Launcher& launcher_;
  base::Clock& clock_;
  Host& host_;
  core::Scheduler scheduler_;
  Attribution attribution_;
  ProcessFaces faces_;
  ProgressBoard progress_;
  Intake intake_;
  Starts starts_;
  Ends ends_;
  TaskNotices notices_;
  Reservations reservations_;
  std::optional<core::ServerClosed> closing_;
  std::vector<core::Event> events_;
  std::deque<EstimateResult> estimated_;  // results that no turn has handled yet
  // Events held back because the core does not know their tasks yet and would ignore them.
  std::vector<std::pair<core::Event, Done>> early_;
  Decided next_;     // collected until the next turn
  Decided decided_;  // decisions of the last turn that are not durable yet
  // GPUs unknown to the core. They stay in the store for a later carmad that manages them again.
  std::map<core::TaskId, Unmanaged> unmanaged_;
  std::string store_trouble_;
  bool stopped_ = false;
  std::set<core::TaskId> passing_;  // tasks that would not survive a power failure (store/batch.h)
};

}  // namespace carma::daemon
