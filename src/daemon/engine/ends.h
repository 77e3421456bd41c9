// Why attempts ended, judged by their output, the driver and their MPS server; and what is learned
// from their ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "estimate/lesson.h"
#include "store/store.h"
#include "task/shim/launcher.h"
#include "task/verdict/allocator_words.h"
#include "task/verdict/observation.h"
#include "task/verdict/oom_detect.h"

namespace carma::daemon {

// Evidence about an end from the GPUs' readings.
class GpuEvidence {
 public:
  virtual ~GpuEvidence() = default;
  // Highest share of the GPU's memory in use just before now.
  virtual std::optional<double> RecentFullness(core::GpuIndex gpu) = 0;
  // Xids that this GPU reported just before now, but not before `since` (earlier ones are not the
  // task's fault); newest last.
  virtual std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) = 0;
  // The task whose process caused the last fault on this GPU since then, from the kernel's log;
  // empty: no fault, or cause unknown.
  virtual std::optional<core::TaskId> FaultyTask(core::GpuIndex, base::Time) { return {}; }
  // Why this GPU can no longer be reached, according to its last reading; empty: it can.
  virtual std::string LostGpu(core::GpuIndex) { return ""; }
  // Tries CUDA on these GPUs, then calls `call` with the reason if it does not work on one of them;
  // empty: it works, or the result is unclear.
  virtual void TryCuda(const std::vector<core::GpuIndex>&,
                       std::function<void(const std::string& trouble)> call) {
    call("");
  }
  // Calls back later, when a reading that begins after now has been taken or is overdue.
  virtual void AfterNextReading(std::function<void()> call) = 0;
};

class Ends {
 public:
  // All arguments must outlive it. Only reads the core, and posts TaskExited.
  Ends(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
       base::Clock& clock, GpuEvidence& gpus, PostEvent post);

  // Takes the end of an attempt, as its shim reports it (kExited). If its output explains the end,
  // or nothing can, the end is posted at once; else the driver's next reading and the MPS server
  // are asked first.
  void Take(const task::ShimEvent& event);

  // Notes tasks whose memory the driver did not report, because their peaks are unreliable.
  void Watch(const core::GpuSampled& sampled);
  // The observation of the attempt that has just left its GPUs, once; empty: none.
  std::optional<task::Observation> Learn(const core::TaskRecord& record);
  // Call it once the task is stored as final.
  void Forget(core::TaskId id);

 private:
  struct EndedAttempt {
    estimate::RanOn where;
    base::Duration watched{0};                 // since it started, or since this daemon did
    std::optional<task::AllocatorWords> told;  // from its own output
  };

  void NoteEnd(const core::TaskRecord& record, const std::optional<task::AllocatorWords>& told);
  bool IsOpen(const task::ShimEvent& event, const core::TaskRecord& record) const;
  bool NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record);
  bool NeedsMpsEvidence(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Whether the attempt's output shows, shortly after its start, that it could not initialise CUDA.
  bool CouldNotBegin(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Ends an attempt whose GPU is at fault, so that it does not count as an attempt.
  void GiveBack(core::TaskId id, int attempt, const std::string& trouble);
  void Judge(core::TaskId id, int attempt, const MpsEvidence& mps);
  core::ExitInfo Classify(const task::ShimEvent& event, const MpsEvidence& mps);
  void NoteFaults(const core::TaskRecord& record, task::ExitEvidence& evidence);
  bool HasNeighbours(const core::TaskRecord& record) const;

  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  GpuEvidence& gpus_;
  PostEvent post_;
  base::Time opened_;  // events before were not seen by this daemon
  // Ends that need more evidence before they are posted to the core.
  std::unordered_map<std::uint64_t, task::ShimEvent> unjudged_;
  // Attempts reported as ended by their shims, until the core has handled them.
  std::unordered_map<std::uint64_t, EndedAttempt> ended_;
  // Tasks whose memory the driver has failed to report at least once.
  std::unordered_set<std::uint64_t> unclear_;
};

}  // namespace carma::daemon
