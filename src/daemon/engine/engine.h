// The daemon without its loop: the core, the store and the launcher, kept in step turn by turn.
// One thread only. Every change is durable before it is performed or answered.
// Its parts: Intake (submissions), Starts (launches and how tasks share), Ends (why tasks ended).
// One part per file: engine.cc (turns), engine_start.cc (what an earlier run left),
// engine_requests.cc (requests other than submissions).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
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
#include "store/batch.h"
#include "store/store.h"
#include "task/shim/launcher.h"

namespace carma::daemon {

class Engine {
 public:
  // What the engine needs from the loop around it.
  class Host : public GpuEvidence {
   public:
    virtual void RequestTurn() = 0;  // call Turn() soon, once
    // The loop answers with TakeEstimate() or Post(EstimateReady).
    virtual void RequestEstimates(std::vector<EstimateJob> jobs) = 0;
    virtual void WakeAt(base::Time when) = 0;  // then Post(WakeUp)
    virtual void RetryTurnLater() = 0;         // the store failed: Turn() again in a second
    virtual void TaskChanged(const core::TaskChanged& change) = 0;  // durable now
    virtual void NoticesChanged() {}  // the store holds new ones, or what became of some
    virtual void JobReturnsChanged(const std::vector<store::JobReturnRow>&) {}  // durable now
  };
  using Done = std::function<void(Result<Unit>)>;

  Engine(EngineOptions options, store::Store& store, task::Launcher& launcher, base::Clock& clock,
         Host& host);

  // Restores what an earlier run left behind: drains, queued tasks, and running tasks (through
  // their shims).
  Result<Unit> Start(std::vector<core::GpuInfo> gpus);

  // Answers once the tasks are durable. Errors: those of Intake, kIo (nothing was accepted).
  void Submit(TaskList tasks, const Submitter& submitter, Intake::Answer answer);
  // The next turn handles the event; `done` is called once its effects are durable. kIo: they will
  // be, but later.
  void Post(core::Event event, Done done = nullptr);
  // Posts EstimateReady and stores the other results. A turn handles only a share of very many.
  void TakeEstimate(EstimateResult result);
  // Returns to the shipped calibration; `done` is called once that is durable.
  void ForgetCalibration(Done done);
  // Requeues a finished task, or stops a running one first.
  void Requeue(core::TaskId id, Done done);
  // Changes the request of an unfinished task; if it holds GPUs, only what core::TaskEdited allows.
  // what: one line for the history. Errors: those of Intake::CheckEdit; kUnavailable while its
  // memory is being estimated or another change of it is not stored yet.
  void Edit(const store::StoredTask& task, const task::TaskSpec& wanted, const std::string& what,
            Done done);
  // Stores a drain or its end and posts it to the core (core::DrainRequested, ResumeRequested).
  void Drain(const core::DrainRequested& drain, Done done = nullptr);
  void Resume(const core::ResumeRequested& resume, Done done = nullptr);
  // Announces that the machine will go down; this is stored until the machine has been restarted
  // (EngineOptions::machine_start) or Open() is called.
  void Close(const core::ServerClosed& closing, Done done = nullptr);
  void Open(Done done = nullptr);
  // When and why the server closes; empty: it is open.
  const std::optional<core::ServerClosed>& closing() const { return closing_; }
  // Numbers and stores a reservation and passes it to the core. Errors: kInvalid for unknown GPUs,
  // kConflict if another reservation has them at that time.
  Result<core::ReservationId> Book(core::Reservation booking, Done done = nullptr);
  // Errors: kNotFound.
  Result<Unit> Unbook(core::ReservationId id, const std::string& who, Done done = nullptr);
  const Reservations& reservations() const { return reservations_; }
  // Applies the values that may change at run time: policy, host, kill_grace, limits of output,
  // processes and submissions, default_time_limit, mps_memory_limit. Attempts keep the values of
  // their start.
  void Follow(const EngineOptions& options);
  // Adds a notice about the server, not about a task's state; it is stored with the next turn.
  void AddNotice(store::Notice notice);
  // Stores the result of a notice, which enters the history once it is final.
  void TakeNoticeResult(store::Notice notice);
  // Stores the progress of requeueing a job, with a line for the history (empty: none); `done` is
  // called once that is durable.
  void KeepJobReturn(store::JobReturnRow row, const std::string& told, Done done);
  // Adds rows that need no event; they are stored with the next turn.
  void AddUsage(std::vector<store::GpuUsage> rows, std::vector<store::LineWait> line_waits);

  void Turn();
  // The last call before destruction: drops requests that wait for an answer, and takes no more.
  void Stop();
  // Handles the launcher's events.
  void PollLauncher();

  const core::Scheduler& scheduler() const { return scheduler_; }
  const task::CgroupControls& controls() const { return options_.controls; }
  const NoticeRules& notice_rules() const { return options_.notices; }
  // Attempts that hold GPUs, as if they ended now.
  std::vector<store::EndedAttempt> RunningAttempts() const;
  Attribution& attribution() { return attribution_; }
  ProgressBoard& progress() { return progress_; }
  const ProgressBoard& progress() const { return progress_; }
  // Where to read the progress of a running attempt that has a shim.
  ProgressBoard::Place ProgressOf(const core::TaskRecord& record) const;
  store::Store& store() { return store_; }
  // Why the store accepts no writes (a full disk, a removed database); empty: it does.
  const std::string& store_trouble() const { return store_trouble_; }
  // Tasks accepted since the start.
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

  // ---- engine_start.cc ----
  Result<Unit> RestoreAttempts();
  Result<Unit> TakeOver();
  Result<Unit> RestoreReservations();
  Result<Unit> RestoreClosing();
  Result<core::TaskRecord> Translated(store::StoredTask stored);
  // ---- engine.cc ----
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
  // False if the store refused: the decisions are kept, and none of them has been carried out.
  bool Flush();
  void PerformAll(Decided decided);
  void Perform(const core::Action& action, std::vector<EstimateJob>& estimates);
  void Forget(const core::TaskRecord& record);
  void TakeShimEvent(const task::ShimEvent& event);
  // Reports that the kernel should limit the memory of the task's group but does not.
  void NoteNoLimit(const core::TaskRecord& record, const std::string& why);
  std::vector<std::string> Uuids(const core::TaskRecord& record) const;

  EngineOptions options_;  // also read by the parts
  store::Store& store_;
  task::Launcher& launcher_;
  base::Clock& clock_;
  Host& host_;
  core::Scheduler scheduler_;
  Attribution attribution_;
  ProgressBoard progress_;
  Intake intake_;
  Starts starts_;
  Ends ends_;
  TaskNotices notices_;
  Reservations reservations_;
  std::optional<core::ServerClosed> closing_;
  std::vector<core::Event> events_;
  std::deque<EstimateResult> estimated_;  // waiting for a turn's share
  // Events about tasks that the core does not know yet and would ignore.
  std::vector<std::pair<core::Event, Done>> early_;
  Decided next_;     // grows until the next turn
  Decided decided_;  // of the last turn, until durable
  std::string store_trouble_;
  bool stopped_ = false;
  std::set<core::TaskId> passing_;  // a power failure ends them (store/batch.h)
};

}  // namespace carma::daemon
