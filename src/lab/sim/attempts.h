// The attempts of simulated tasks from launch to exit: memory, work, checkpoints and stops. Private
// to sim.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "core/scheduler/events.h"
#include "core/values/exit.h"
#include "lab/sim/agenda.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/machines.h"
#include "lab/sim/results.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

class Attempts {
 public:
  // What happened when a task's timer fired.
  struct Step {
    std::optional<core::ExitKind> exit;  // set if the task's process exits
    bool memory = false;                 // its memory may have changed
    bool slot_over = false;  // the time slice is over, and a stop would not lose all the work
  };

  // `from`: time of the first submission. All arguments must outlive this object.
  Attempts(const RunOptions& options, const Layout& layout, Jobs& jobs, Agenda& agenda,
           Results& results, base::Time from);

  // Launches the task on the GPUs that are already set in its attempt.
  void Launch(JobIndex index, const core::StartTask& start);
  // Handles the timer of a task with a running process.
  Step OnTimer(JobIndex index);
  // Asks the task to checkpoint and exit. A task that cannot checkpoint continues.
  void AskToSave(JobIndex index);
  void Stop(JobIndex index);
  // Call this when the task's process has exited.
  void End(JobIndex index);
  // The progress that a server's tasks have printed; empty if none of them prints progress.
  std::optional<core::ProgressSeen> ProgressOn(std::uint32_t server) const;

  Machines& machines() { return machines_; }
  const Machines& machines() const { return machines_; }

 private:
  std::int64_t MpsLimitOf(const Job& job, const core::StartTask& start) const;
  Machines::Resident ResidentOf(const Job& job) const;
  void Allocate(JobIndex index);
  void Begin(Job& job);
  Step OnComputing(JobIndex index);
  void StepMemory(JobIndex index);
  void OutOfMemory(JobIndex index);
  void WriteCheckpoint(JobIndex index);
  void Schedule(JobIndex index);
  // The remaining time that the task prints.
  std::optional<base::Duration> LeftOf(const Job& job) const;

  const RunOptions& options_;
  const Layout& layout_;
  Jobs& jobs_;
  Agenda& agenda_;
  Results& results_;
  Machines machines_;
};

}  // namespace carma::sim
