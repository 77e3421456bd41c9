// The daemon without its loop: the core, the store and the launcher, kept in step turn by turn.
// One thread only. Every change is durable before it is performed or answered.
// In three files: engine.cc (turns), engine_sharing.cc (MPS), engine_ends.cc (why tasks ended).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/scheduler.h"
#include "daemon/attribution.h"
#include "daemon/estimates.h"
#include "daemon/mps_desk.h"
#include "store/store.h"
#include "task/describe/spec.h"
#include "task/shim/launcher.h"
#include "task/verdict/oom_detect.h"

namespace carma::daemon {

// Who submits, as the kernel tells.
struct Submitter {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
};

struct EngineOptions {
  core::PolicyConfig policy;
  std::string state_dir;
  base::Duration kill_grace{30'000};
  std::int64_t max_output_bytes = 0;
  int output_rotations = 1;
  std::size_t max_queued_tasks = 1'000'000;
  std::optional<base::Duration> default_time_limit;
  std::map<std::string, std::string> task_environment;  // for every task
  MpsDesk* mps = nullptr;     // outlives the engine; null: no task ever was at an MPS server
  bool share_by_mps = false;  // tasks with neighbours share through MPS servers, else by streams
  std::string mps_dir;
  bool mps_server_per_gpu = true;  // false: one for all whole GPUs
  bool mps_memory_limit = true;    // no process may take more than its claim and the margin
  // What finished tasks teach; null: they do not.
  std::shared_ptr<estimate::History> history;
};

class Engine {
 public:
  // What the engine asks of the loop around it.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void RequestTurn() = 0;  // call Turn() soon, once
    virtual void RequestEstimates(
        std::vector<EstimateJob> jobs) = 0;    // answer with TakeEstimate() or Post(EstimateReady)
    virtual void WakeAt(base::Time when) = 0;  // then Post(WakeUp)
    virtual void RetryTurnLater() = 0;         // the store failed: Turn() again in a second
    virtual void TaskChanged(const core::TaskRecord& record) = 0;  // durable now
    // Highest share of the GPU's memory in use just before now.
    virtual std::optional<double> RecentFullness(core::GpuIndex gpu) = 0;
    // Xids that this GPU announced just before now, newest last.
    // Of those the ones since then: what was before a task is no fault of its.
    virtual std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) = 0;
    // Why this GPU cannot be reached any more, as its last reading told; empty: it can.
    virtual std::string LostGpu(core::GpuIndex) { return ""; }
    // Calls, later, once a reading that begins after now has been taken, or is overdue.
    virtual void AfterNextReading(std::function<void()> call) = 0;
  };
  using Done = std::function<void(base::Result<base::Unit>)>;

  Engine(EngineOptions options, store::Store& store, task::Launcher& launcher, base::Clock& clock,
         Host& host);

  // Takes over what an earlier life left behind: drains, queued tasks, running ones (by their
  // shims).
  base::Result<base::Unit> Start(std::vector<core::GpuInfo> gpus);

  // Answers once the tasks are durable. Errors: kConflict (can never fit, queue full), kIo (nothing
  // was accepted).
  void Submit(std::vector<task::TaskSpec> specs, const Submitter& submitter,
              std::function<void(base::Result<Submitted>)> answer);
  // The event is handled in the next turn; `done` once its effects are durable.
  void Post(core::Event event, Done done = nullptr);
  // EstimateReady, with what else was found out about the task kept beside it.
  void TakeEstimate(EstimateResult result);
  // From now on predictions are as shipped again; `done` once that is durable.
  void ForgetCalibration(Done done);
  // Puts a finished task back into the queue, or asks for the stop of a live one.
  void Requeue(core::TaskId id, Done done);
  // Keeps a drain over restarts and tells the core; as core::DrainRequested and ResumeRequested.
  void Drain(const core::DrainRequested& drain, Done done = nullptr);
  void Resume(const core::ResumeRequested& resume, Done done = nullptr);
  // Rows that need no event: use of the GPUs, pruning. Kept with the next turn; lost if the store
  // fails.
  void AddUsage(std::vector<store::GpuUsage> rows);

  void Turn();
  // What the launcher has to say; ends with events.
  void PollLauncher();

  const core::Scheduler& scheduler() const { return scheduler_; }
  Attribution& attribution() { return attribution_; }
  store::Store& store() { return store_; }
  // Empty while the store takes writes; else why not (a full disk).
  const std::string& store_trouble() const { return store_trouble_; }
  // The seats that tasks here may have, as task::MpsSeat::gpus.
  std::vector<std::string> MpsSeats() const;
  std::optional<core::GpuIndex> GpuByUuid(const std::string& uuid) const;
  std::string AttemptDir(core::TaskId id, int attempt) const;

 private:
  struct Submission {
    std::vector<task::TaskSpec> specs;
    Submitter submitter;
    std::function<void(base::Result<Submitted>)> answer;
  };
  // (uuid, by rule) -> why, or empty: resumed.
  using Drains = std::map<std::pair<std::string, bool>, std::optional<std::string>>;
  // Decided but not yet durable.
  struct Batch {
    std::map<core::TaskId, core::TaskRecord> records;
    std::vector<store::StoredEvent> events;
    std::vector<store::GpuUsage> usage;
    Drains drains;
    std::vector<store::Forecast> forecasts;
    std::vector<task::Observation> observations;
    bool forget_calibration = false;
    std::vector<core::Action> actions;
    std::vector<Done> done;
    bool Empty() const {
      return records.empty() && events.empty() && usage.empty() && drains.empty() &&
             forecasts.empty() && observations.empty() && !forget_calibration && actions.empty() &&
             done.empty();
    }
  };

  void AcceptSubmissions();
  void KeepForEstimates(core::TaskId first, std::vector<task::TaskSpec> specs,
                        const Submitter& submitter);
  static void Refuse(Submission& submission, const base::Error& why);
  void AnswerWithTrouble();
  base::Result<Submitted> Accept(Submission& submission, std::vector<core::Event>& events);
  base::Result<base::Unit> RefuseWhatNeverFits(const std::vector<task::TaskSpec>& specs,
                                               std::uint32_t uid) const;
  base::Result<base::Unit> CheckDependencies(const std::vector<task::TaskSpec>& specs);
  base::Result<base::Unit> FillDependencies(core::TaskRequest& request);
  store::StoredTask NewTask(const task::TaskSpec& spec, std::string spec_json, core::TaskId id,
                            const Submitter& submitter, std::optional<core::TaskId> array) const;
  void Collect(std::vector<core::Action> actions);
  void NoteChange(const core::TaskRecord& record);
  // False: the store refused; the batch is kept and nothing of it has happened yet.
  bool Flush();
  base::Result<base::Unit> Write(const Batch& batch);
  static bool KnownAgainAfterRestart(const Batch& batch);
  base::Result<EstimateJob> JobForEstimate(core::TaskId id);
  void NoteEnd(core::TaskId id, int attempt);
  // What the attempt that has just ended taught; empty: nothing.
  std::optional<task::Observation> Lesson(const core::TaskRecord& record);
  void Perform(const core::Action& action, std::vector<EstimateJob>& estimates);
  void Launch(const core::StartTask& start);
  base::Result<task::LaunchOrder> OrderFor(const core::StartTask& start);
  // How an attempt that needs no MPS server shares its GPUs; empty: it is to have one.
  std::optional<core::Sharing> PlainSharing(const core::StartTask& start) const;
  core::Sharing MpsSharing(const core::StartTask& start, const task::MpsSeat& seat) const;
  task::MpsSeat SeatOf(std::uint32_t uid, std::uint32_t gid,
                       const std::vector<std::string>& gpu_uuids) const;
  void ApplySharing(const core::Sharing& sharing, bool alone, task::LaunchOrder& order) const;
  // The desk's answer: the attempt starts once its sharing is durable.
  void TakeSeat(core::TaskId id, int attempt, const base::Result<base::Unit>& seated);
  void StartArranged(const core::TaskRecord& record);
  void Stop(const core::StopTask& stop);
  void TakeShimEvent(const task::ShimEvent& event);
  void LogStart(const task::ShimEvent& event) const;
  void TakeExit(const task::ShimEvent& event);
  bool NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record);
  bool NeedsFate(const task::ShimEvent& event, const core::TaskRecord& record) const;
  void Judge(core::TaskId id, int attempt, const MpsFate& fate);
  core::ExitInfo Classify(const task::ShimEvent& event, const MpsFate& fate);
  void NoteFaults(const core::TaskRecord& record, task::ExitEvidence& evidence);
  bool HasNeighbours(const core::TaskRecord& record) const;
  base::Result<core::TaskRecord> Restore(store::StoredTask& stored);
  std::vector<std::string> Uuids(const core::TaskRecord& record) const;

  EngineOptions options_;
  store::Store& store_;
  task::Launcher& launcher_;
  base::Clock& clock_;
  Host& host_;
  core::Scheduler scheduler_;
  Attribution attribution_;
  std::vector<Submission> submissions_;
  std::vector<core::Event> events_;
  std::vector<Done> waiting_done_;
  Drains waiting_drains_;
  std::vector<store::Forecast> waiting_forecasts_;
  bool waiting_forget_ = false;
  std::vector<store::GpuUsage> waiting_usage_;
  Batch batch_;
  std::unordered_map<std::uint64_t, core::TaskState> last_state_;
  // Of tasks accepted in this turn, without their environments, until their estimates are asked.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
  // Attempts that their shims have reported as ended, until the core has judged them.
  struct EndedAttempt {
    std::string gpu_type;       // of its first GPU
    base::Duration watched{0};  // since it started, or since this daemon did
  };
  std::unordered_map<std::uint64_t, EndedAttempt> ended_;
  // Attempts that wait for a place at an MPS server, or for their sharing to become durable.
  struct Arranged {
    task::LaunchOrder order;
    core::StartTask start;
    std::optional<core::Sharing> sharing;  // empty: not yet known
  };
  std::unordered_map<std::uint64_t, Arranged> arranged_;
  // Ends that are looked at more closely before the core hears of them.
  std::unordered_map<std::uint64_t, task::ShimEvent> unjudged_;
  // Tasks whose memory the driver did not tell at some time: their peaks are not to be trusted.
  std::unordered_set<std::uint64_t> unclear_;
  std::optional<core::TaskId> next_id_;
  base::Time opened_{};  // what happened before was not watched by this daemon
  std::string store_trouble_;
};

}  // namespace carma::daemon
