// Accumulates the results of a run as it proceeds. Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/values/exit.h"
#include "core/values/task_state.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/recorder.h"
#include "lab/sim/sim_gpu.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

class Results {
 public:
  // from: time of the first submission. All arguments must outlive this object.
  Results(const Cluster& cluster, const RunOptions& options, const Layout& layout, base::Time from);

  // Null if nothing is recorded.
  Recorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  void CountEvents(std::size_t task_events) {
    totals_.task_events += static_cast<std::int64_t>(task_events);
  }
  void Submitted() { ++totals_.tasks; }
  void Launched(Job& job);
  void OutOfMemory() { ++totals_.oom_crashes; }
  void SentBack() { ++totals_.requeues; }
  void WorkSaved() { starts_in_vain_ = 0; }
  void AttemptEnded(Job& job, core::ExitKind kind, base::Time now);
  // reason: why the task did not succeed.
  void TaskEnded(Job& job, core::TaskState state, const std::string& reason, base::Time now);

  const Totals& so_far() const { return totals_; }
  // Number of attempts stopped since a task last ended or saved work.
  std::int64_t starts_in_vain() const { return starts_in_vain_; }
  // Call this after the last task has ended. `devices`: all cards.
  RunResult Finish(std::vector<SimDevice>& devices, std::int64_t samples);

 private:
  report::RunTask Described(Job& job, core::TaskState state, base::Time now) const;

  const RunOptions& options_;
  const Layout& layout_;
  const base::Time from_;
  base::Time last_end_{};
  std::optional<Recorder> recorder_;
  Totals totals_;
  std::int64_t starts_in_vain_ = 0;
};

}  // namespace carma::sim
