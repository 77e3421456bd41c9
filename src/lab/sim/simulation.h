// One run of the simulator: arrivals, servers with their schedulers, the attempts of tasks, and the
// messages between servers and tasks. Private to sim; use simulate.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lab/sim/agenda.h"
#include "lab/sim/candidates.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/lines_above.h"
#include "lab/sim/machines.h"
#include "lab/sim/monitor.h"
#include "lab/sim/placing.h"
#include "lab/sim/predictions.h"
#include "lab/sim/results.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

class Simulation {
 public:
  // Simulate must have checked all arguments, which must outlive the run.
  Simulation(const Cluster& cluster, std::span<const Arrival> arrivals, const RunOptions& options);
  Result<RunResult> Run();

 private:
  // ---- simulation.cc: the servers and the dispatch of events ----
  void BuildServers();
  void Handle(const Agenda::Event& event);
  void OnArrivals();
  void OnSamples(std::uint32_t node);
  void SendReservations();
  void OnJob(JobIndex index);
  void OnEstimate(JobIndex index);
  // Passes events_ to the core and performs its actions, until the actions cause no more events.
  void Tell(std::uint32_t node);
  // Adds to events_ the samples that the core needs for its next decision.
  void CatchUp(std::uint32_t node);
  void Tick(std::uint32_t node);
  void SetTick(std::uint32_t node);
  void SetTicks(const Job& job);  // for all its servers, because its memory may have changed
  void CheckBooks() const;
  base::Time now() const { return agenda_.now(); }

  // ---- life.cc: tasks, and their messages to and from the cores ----
  void Submit(std::uint32_t node, std::span<const JobIndex> jobs);
  void Launch(std::uint32_t node, const core::StartTask& start);
  void OnChanged(std::uint32_t node, const core::TaskRecord& record);
  void EndSlot(Job& job);
  void Exit(JobIndex index, core::ExitKind kind);
  void LeaveQueue(std::uint32_t node, Job& job);
  void Retire(JobIndex index, const core::TaskRecord& record);

  // ---- attempts.cc: the attempts of tasks from launch to exit ----
  // Launches the task on the GPUs that are already set in its attempt.
  void StartAttempt(JobIndex index, const core::StartTask& start);
  std::int64_t MpsLimitOf(const Job& job, const core::StartTask& start) const;
  Machines::Resident ResidentOf(const Job& job) const;
  void Allocate(JobIndex index);
  void OnComputing(JobIndex index);
  void StepMemory(JobIndex index);
  void SetMemoryStep(JobAttempt& attempt) const;
  void OutOfMemory(JobIndex index);
  void WriteCheckpoint(JobIndex index);
  // Sets the task's timer to the next step of its attempt.
  void Schedule(JobIndex index);
  // Asks the task to checkpoint and exit. A task that cannot checkpoint continues.
  void AskToSave(JobIndex index);
  void Stop(JobIndex index);
  // Call this when the task's process has exited.
  void EndAttempt(JobIndex index);
  // The remaining time that the task prints.
  std::optional<base::Duration> LeftOf(const Job& job) const;
  // The progress that a server's tasks have printed; empty if none of them prints progress.
  std::optional<core::ProgressSeen> ProgressOn(std::uint32_t server) const;

  // ---- above.cc: tasks in the queue that feeds the servers ----
  bool HasAbove() const { return options_.above.placing != Placing::kQueue; }
  double RateOf(const Job& job) const;
  void EnterAbove(JobIndex index);
  void PlaceOn(JobIndex index, std::span<const std::uint32_t> nodes);
  bool IsPatient(const Job& job);
  void TakeBack(JobIndex index);
  bool GoesBack(const Job& job, core::TaskState state) const;
  void SendBack(JobIndex index, core::TaskState state);
  void LeaveAbove(JobIndex index);
  void Dispatch();
  PlaceTask Placer();
  void OnAbove();  // handles the timer of the cluster's queue
  void Report();   // makes the servers report before the queue asks them

  const RunOptions& options_;
  const std::span<const Arrival> arrivals_;
  const base::Time first_;  // time of the first submission
  const Layout layout_;
  Agenda agenda_;
  Jobs jobs_;
  Results results_;
  Machines machines_;
  Monitor monitor_;
  Predictions predictions_;
  Servers servers_;
  std::vector<core::Event> events_;  // events at the current time for one core
  std::size_t next_arrival_ = 0;
  int still_days_ = 0;  // days on which tasks waited but none ran

  std::optional<IdleFirst> idle_first_;  // only with several servers
  // Unused with Placing::kQueue.
  LinesAbove lines_;
  Candidates candidates_;
  std::optional<SlurmPlacing> slurm_;
  std::optional<AskedPlacing> asked_;
  bool above_changed_ = false;  // something changed that might allow a placement
};

}  // namespace carma::sim
