// One run of the simulator: future events, living tasks, servers with their cores. Private to sim;
// use simulate.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/scheduler/waking_core.h"
#include "lab/sim/alike.h"
#include "lab/sim/appraisals.h"
#include "lab/sim/lines_above.h"
#include "lab/sim/mig.h"
#include "lab/sim/node_counts.h"
#include "lab/sim/recorder.h"
#include "lab/sim/sim_gpu.h"
#include "lab/sim/simulate.h"
#include "lab/sim/timer_queue.h"

namespace carma::sim {

class Simulation {
 public:
  // Simulate has checked all arguments; they must outlive the run.
  Simulation(const Cluster& cluster, std::span<const Arrival> arrivals, const RunOptions& options);
  base::Result<RunResult> Run();

 private:
  using JobIndex = std::uint32_t;

  enum class Phase {
    kEstimating,  // its estimate comes later
    kWaiting,     // in the cluster's queue or in a server's
    kLoading,     // its process lives but has not allocated
    kComputing,
    kCrashing,  // ran out of memory, its process is about to end
    kStopping,  // the core has asked for its end
    kAway,      // sent back by its server, not placed again yet
  };
  // A task between its submission and its end.
  struct Job {
    core::TaskId id{};
    const Arrival* arrival = nullptr;
    double solo_s = 0;         // with its noise
    double fails_after_s = 0;  // work until its failure, or infinity
    Phase phase = Phase::kWaiting;
    std::uint32_t node = 0;
    bool recovering = false;  // waits in the server's recovery queue
    bool untaught = false;    // its last attempt has ended but taught nothing yet
    base::Time submitted{};

    // Its group above the servers, if tasks are placed there (Placing::kSlurm, kAsked).
    std::shared_ptr<Alike> alike;
    bool placed = false;
    bool leaving = false;                    // its server must give it back
    std::vector<std::uint32_t> nodes;        // whole servers of a task of several
    std::size_t parts = 0;                   // of these that have started or ended it
    std::vector<std::uint32_t> pinned;       // GPUs of its server that Slurm has chosen
    std::optional<std::uint32_t> shunned;    // the last server that it was taken from
    base::Time lined_up{};                   // above, the last time
    int waits = 0;                           // times it was taken away
    int retries = 0;                         // after it ran out of memory
    std::optional<std::int64_t> raised_mib;  // what it asks for then

    // The current attempt.
    int attempt = 0;
    base::Time launched{};
    base::Time allocated{};
    std::vector<std::uint32_t> gpus;  // SimGpus, all of one server but where it has several
    bool alone = false;               // exclusive, so no MPS client
    std::int64_t promised_mib = 0;    // of its memory on each; 0: nothing
    std::int64_t limit_mib = 0;       // of its memory on each; 0: none
    bool saved = false;               // it was asked to save, and ends by itself
    bool holds = false;               // memory there, from its first allocation on
    std::vector<double> paces;        // on each: work seconds per second
    double pace = 0;                  // of the slowest
    double work_s = 0;                // work of this attempt
    double left_s = 0;                // of it at `since`
    double pause_s = 0;               // of it for writing a checkpoint, done first
    base::Time since{};
    base::Time ends{};
    std::optional<base::Time> memory_steps;
    std::optional<base::Time> checkpoints;
    std::optional<base::Time> slot_ends;

    // All attempts.
    double saved_s = 0;  // work that the next attempt need not do again
    int slots = 0;       // times it was sent back
    std::int64_t attempts = 0;
    int ooms = 0;
    double executed_s = 0;
    std::optional<double> lost_s;             // to saving and leaving
    std::optional<core::ExpectedStart> told;  // expected start; only if requested
    std::vector<report::Attempt> history;     // only if requested
  };
  // The last sample of a GPU, and changes since.
  struct Observed {
    std::int64_t used_mib = 0;
    std::vector<std::pair<core::TaskId, std::int64_t>> tasks_mib;
    base::Time sampled{};
    base::Time changed{};    // last change of what a sample would show
    bool unsampled = false;  // a change since the last sample
    int unseen = 0;          // tasks that were launched here and hold nothing
  };
  struct Samples {
    base::Time arrive{};
    std::vector<core::Event> events;
  };
  // Servers without waiting tasks, best first: most idle GPUs, fewest tasks, lowest number.
  using OpenKey = std::tuple<int, int, std::uint32_t>;
  struct Node {
    explicit Node(core::PolicyConfig policy) : core(std::move(policy)) {}
    core::WakingCore core;
    std::uint32_t first_gpu = 0;
    std::uint32_t gpu_count = 0;  // SimGpus
    std::uint32_t kind = 0;       // equal for servers with the same GPUs
    int waiting = 0;              // tasks in its core without GPUs
    int recovering = 0;           // of them in the recovery queue
    int idle_gpus = 0;            // without any launched task
    int launched = 0;             // tasks
    double wanted_cores = 0;      // by computing tasks
    int computing = 0;            // tasks
    double host_factor = 1;
    bool host_changed = false;  // since the core's last sample
    base::Time progress_shown{};
    double fastest = 0;      // GpuType::relative_speed of its fastest GPU
    base::Time next_tick{};  // where one is set
    std::deque<Samples> on_the_way;
    std::optional<OpenKey> open;  // its place among the open ones
    bool whole = false;           // held by a task of several servers
    std::uint64_t told = 0;       // number of events to its core
    // Its last answer, and when.
    std::vector<core::GpuView> views;
    std::uint64_t viewed = 0;
  };

  // ---- simulation.cc: the servers, and what happens when ----
  void BuildServers();
  TimerId WakeTimer(std::uint32_t node) const { return 3 + 3 * node; }
  TimerId TickTimer(std::uint32_t node) const { return 4 + 3 * node; }
  TimerId SampleTimer(std::uint32_t node) const { return 5 + 3 * node; }
  TimerId JobTimer(JobIndex job) const { return static_cast<TimerId>(3 + 3 * nodes_.size() + job); }
  void Handle(TimerId timer);
  void OnArrivals();
  void OnWake(std::uint32_t node);
  void OnSamples(std::uint32_t node);
  void SendReservations();
  void OnJob(JobIndex index);
  // Passes events_ to the core and performs its actions, repeatedly until nothing follows.
  void Tell(std::uint32_t node);
  void CheckBooks() const;
  Totals Sum();

  // ---- life.cc: tasks, and what passes between them and the cores ----
  JobIndex NewJob(const Arrival& arrival, std::size_t number);
  void Submit(std::uint32_t node, std::span<const JobIndex> jobs);
  void Launch(std::uint32_t node, const core::StartTask& start);
  std::int64_t MpsLimitOf(const core::StartTask& start) const;
  void OnChanged(std::uint32_t node, const core::TaskRecord& record);
  void Exit(JobIndex index, core::ExitKind kind);
  void LeaveServer(std::uint32_t node, Job& job);
  void Retire(JobIndex index, core::TaskState state);

  // ---- estimates.cc: what is said of a task's memory, and learned ----
  // The request on that server; for a task of several servers its part there.
  core::TaskRequest RequestOf(const Job& job, std::uint32_t node) const;
  core::TaskRequest RequestOf(const Job& job) const;
  std::optional<core::Estimate> EstimateOf(const Job& job);
  core::Profile PredictedProfile(const Job& job);
  core::EstimateReady EstimateFor(const Job& job);
  std::optional<core::Estimate> AnswerFor(const Job& job);
  void Learn(const core::TaskRecord& record);

  // ---- dispatch.cc: the queue above the servers ----
  void Dispatch();
  std::optional<std::uint32_t> ServerFor(const Job& job);
  void Reopen(std::uint32_t node);

  // ---- above.cc: tasks above the servers, where more than a queue stands there ----
  bool HasAbove() const { return options_.above.placing != Placing::kQueue; }
  bool IsGang(const Job& job) const {  // wants more GPUs than a server has
    return static_cast<std::size_t>(job.arrival->workload->gpus) > largest_server_;
  }
  std::span<const std::uint32_t> ServersOf(const Job& job) const {
    return job.nodes.empty() ? std::span(&job.node, 1) : std::span(job.nodes);
  }
  int GpusOn(const Job& job, std::uint32_t node) const;
  std::uint32_t UidOf(const Job& job) const {  // 0: not told
    return job.arrival->user.empty() ? 0 : uids_.at(job.arrival->user);
  }
  // Whether its kernels take turns with those of the MPS clients on its GPUs.
  bool IsNoMpsClient(const Job& job) const {
    return options_.policy.gangs_take_turns && job.arrival->workload->gpus > 1;
  }
  std::uint32_t MpsUserOf(const Job& job) const;
  void BuildAbove();
  void EnterAbove(JobIndex index);
  std::shared_ptr<Alike> AlikeOf(const Job& job);
  bool CouldTake(Alike& alike, std::uint32_t node);
  bool AnotherCould(const Job& job, std::uint32_t than);
  double RateOf(const Job& job) const;
  base::Duration LimitOf(const Job& job) const;  // what its user says
  void PlaceOn(JobIndex index, std::span<const std::uint32_t> nodes);
  bool IsPatient(const Job& job);
  void TakeBack(JobIndex index);
  bool GoesBack(const Job& job, core::TaskState state) const;
  void SendBack(JobIndex index, core::TaskState state);
  void LeaveAbove(JobIndex index);
  void DispatchAbove();
  void OnAbove();  // its timer
  // Servers of one kind for which `is_free`, as many as the task needs. Empty: too few.
  using IsFree = std::function<bool(std::uint32_t)>;
  std::vector<std::uint32_t> WholeServersFor(Job& job, const IsFree& is_free);

  // ---- slurm.cc: by counts ----
  struct Kept {  // for the first in line
    base::Time from{};
    std::vector<std::uint32_t> nodes;
    CountAsked asked;
  };
  void PlaceByCounts();
  void Backfill();
  std::vector<std::uint32_t> NodesByCounts(Job& job, const Kept* kept);
  bool MayPass(const Kept& kept, std::uint32_t node, const Job& job) const;
  std::optional<Kept> KeptFor(Job& job);

  // ---- asked.cc: by answers ----
  void PlaceByAnswers();
  void Report();
  std::vector<std::uint32_t> NodesByAnswers(Job& job);
  const std::optional<double>& AnswerOf(Alike& alike, std::uint32_t node);
  std::optional<double> Ask(Alike& alike, std::uint32_t node);
  bool IsFreeOfAll(std::uint32_t node) const;
  bool IsKeptFrom(const Job& job, std::uint32_t node) const;
  void KeepServers(std::span<const LinesAbove::Waiting> looked_at);

  // ---- physics.cc: memory, speed, power ----
  void Allocate(JobIndex index);
  bool Fits(std::uint32_t gpu, std::int64_t more_mib, int tasks) const;
  bool MayHold(const Job& job, std::int64_t mib) const {
    return job.limit_mib == 0 || mib <= job.limit_mib;
  }
  void StepMemory(JobIndex index);
  void OutOfMemory(JobIndex index);
  void Leave(JobIndex index);  // gives up what it holds
  void Recompute(std::uint32_t gpu);
  double CoresOf(const Job& job) const;                      // that its data loading wants
  double CoresOn(const Job& job, std::uint32_t node) const;  // of them on that server
  void RecomputeHost(std::uint32_t node);
  void SetPace(JobIndex index);
  void SetActivity(std::uint32_t gpu);
  core::SharingMethod SharingOn(std::uint32_t gpu) const;
  Load LoadOf(const Job& job, std::size_t part) const;
  const GpuType& TypeOf(std::uint32_t gpu) const {
    return *types_[gpu / static_cast<std::uint32_t>(mig_.instances)];
  }
  double BaseSpeed(const Job& job, std::size_t part) const;
  double AloneS(const Job& job, double work_s) const;  // time for this work alone on its last GPUs

  // ---- progress.cc: work, checkpoints, stops, time slots ----
  void Begin(JobIndex index);  // to compute
  void OnComputing(JobIndex index);
  void Schedule(JobIndex index);
  void Advance(Job& job);
  void WriteCheckpoint(JobIndex index);
  void LoseTo(JobIndex index);  // what a stop costs it
  bool InVain() const;          // no lasting progress for so long that there will be none
  void EndSlot(JobIndex index);
  void Stop(const core::StopTask& stop);
  void AskToSave(const core::AskToSave& ask);

  // ---- monitor.cc: what the monitor sees ----
  void Touch(std::uint32_t gpu);  // after a change that a sample would show
  bool OnDemand() const { return options_.monitor.mode == MonitorOptions::Mode::kOnDemand; }
  base::Time TickAtOrBefore(base::Time when) const;
  base::Time TickAfter(base::Time when) const;
  core::GpuSampled Sample(std::uint32_t gpu, base::Time taken);
  core::GpuSampled SampleAsLast(std::uint32_t gpu, base::Time taken) const;
  // Adds samples to events_; `closed`: also for GPUs that are closed until they have settled.
  void CatchUp(std::uint32_t node);
  core::HostSampled HostSampleOf(const Node& node) const;
  void ShowProgress(Node& node);  // adds it to events_
  void Tick(std::uint32_t node);
  void SetTick(std::uint32_t node);
  bool IsMoving(const Observed& observed) const;
  bool MayOpen(const Node& node) const;

  const Cluster& cluster_;
  const std::span<const Arrival> arrivals_;
  const RunOptions& options_;
  const MigProfile& mig_;
  const bool keeps_history_;
  std::int64_t largest_mib_ = 0;    // usable memory of the largest SimGpu
  double fastest_ = 0;              // Node::fastest of the fastest server
  std::size_t largest_server_ = 0;  // SimGpus of it

  base::Time now_{};
  base::Time start_{};  // of the daemons
  base::Time first_{};  // the first submission
  base::Time last_end_{};
  std::size_t next_arrival_ = 0;
  std::vector<core::Reservation> reservations_;
  int still_days_ = 0;               // days without running but with waiting tasks
  std::int64_t starts_in_vain_ = 0;  // since the last end or saved progress
  TimerQueue timers_;
  std::deque<Node> nodes_;  // which cannot move
  std::vector<SimGpu> gpus_;
  std::vector<Observed> observed_;      // of each SimGpu
  std::vector<int> launched_;           // tasks on each SimGpu
  std::vector<SimDevice> devices_;      // mig_.instances SimGpus each
  std::vector<const GpuType*> types_;   // of each device
  std::vector<std::uint32_t> node_of_;  // of each SimGpu
  std::vector<Job> jobs_;
  std::vector<JobIndex> free_jobs_;
  std::map<std::string, std::uint32_t> uids_;           // of the users that the load names
  std::unordered_map<std::uint64_t, JobIndex> job_of_;  // by task id; for look-up only
  std::deque<JobIndex> cluster_queue_;                  // only with several servers
  std::set<OpenKey> open_;
  // Above the servers.
  LinesAbove lines_;
  core::FairShare shares_;
  NodeCounts counts_;
  // Number of the head that fitted nowhere, and servers with more room since then.
  std::optional<std::uint64_t> blocked_;
  std::vector<std::uint32_t> freed_;
  std::map<AlikeKey, std::shared_ptr<Alike>> alikes_;
  bool above_changed_ = false;  // something changed that may allow a placement
  base::Time reported_{};
  std::unique_ptr<core::Mapper> mapper_;  // by whose score answers are compared
  // Servers whose answers may have changed, in order; a new epoch means all of them.
  std::vector<std::uint32_t> touched_;
  std::uint64_t epoch_ = 1;
  // Number of the task that room is kept for, because others have passed it for too long.
  std::optional<std::uint64_t> kept_for_;
  std::vector<std::uint32_t> kept_;
  std::optional<Appraisals> appraisals_;  // with a method
  std::optional<Recorder> recorder_;
  Totals totals_;
  double waiting_s_ = 0;  // sums over executed tasks
  double execution_s_ = 0;
  double jct_s_ = 0;
  double slowdown_ = 0;  // sum over successful attempts
  std::int64_t executed_ = 0;
  std::vector<core::Event> events_;  // of this moment, for one core
  // Of one recomputation.
  std::vector<Load> loads_;
  std::vector<double> speeds_;
};

}  // namespace carma::sim
