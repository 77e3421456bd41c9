// Decides why attempts ended, from their output, the driver and their MPS server, and what is
// learned from them.
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

// Evidence from GPU readings about why an attempt ended.
class GpuEvidence {
 public:
  virtual ~GpuEvidence() = default;
  // The highest share of the GPU's memory that was in use in the last moments.
  virtual std::optional<double> RecentFullness(core::GpuIndex gpu) = 0;
  // The Xids that this GPU reported in the last few seconds, newest last. Xids before `since` are
  // left out, because they are not the task's fault.
  virtual std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) = 0;
  // The task whose process caused the last fault on this GPU after the given time, according to the
  // kernel's log. Empty: no fault, or an unknown cause.
  virtual std::optional<core::TaskId> FaultyTask(core::GpuIndex, base::Time) { return {}; }
  // Why this GPU can no longer be reached, according to its last reading; empty if it can.
  virtual std::string LostGpu(core::GpuIndex) { return ""; }
  // Tries CUDA on these GPUs, then calls `call` with the reason why it fails on one of them. The
  // reason is empty if CUDA works or the result is unclear.
  virtual void TryCuda(const std::vector<core::GpuIndex>&,
                       std::function<void(const std::string& trouble)> call) {
    call("");
  }
  // Calls back, never before returning, when a reading that begins after this call has been taken
  // or is overdue.
  virtual void AfterNextReading(std::function<void()> call) = 0;
};

class Ends {
 public:
  // All arguments must outlive this object. It only reads the core, and posts TaskExited.
  Ends(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
       base::Clock& clock, GpuEvidence& gpus, PostEvent post);

  // Takes the end of an attempt as reported by its shim (kExited). If the output explains the end,
  // or nothing could explain it, the end is posted at once. Otherwise it is posted after the
  // driver's next reading and the answer of the MPS server.
  void Take(const task::ShimEvent& event);

  // Records tasks whose memory the driver did not report, because their peaks are unreliable.
  void Watch(const core::GpuSampled& sampled);
  // The observation of the attempt that has just left its GPUs. Returned once; empty: none.
  std::optional<task::Observation> Learn(const core::TaskRecord& record);
  // Must be called once the task is stored as final.
  void Forget(core::TaskId id);

 private:
  struct EndedAttempt {
    estimate::RanOn where;
    // Since the start of the attempt or of this daemon, whichever is later.
    base::Duration watched{0};
    std::optional<task::AllocatorWords> told;  // from the output of the attempt
  };

  void NoteEnd(const core::TaskRecord& record, const std::optional<task::AllocatorWords>& told);
  bool IsOpen(const task::ShimEvent& event, const core::TaskRecord& record) const;
  bool NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record);
  bool NeedsMpsEvidence(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Whether the attempt's output shows, shortly after its start, that it could not initialise CUDA.
  bool CouldNotBegin(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Ends an attempt whose GPU is at fault. The attempt does not count.
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
  base::Time opened_;  // this daemon saw no earlier events
  // Ends for which more evidence is needed before they are posted to the core.
  std::unordered_map<std::uint64_t, task::ShimEvent> unjudged_;
  // Attempts reported as ended by their shims, until the core has handled them.
  std::unordered_map<std::uint64_t, EndedAttempt> ended_;
  // Tasks whose memory the driver has failed to report at least once.
  std::unordered_set<std::uint64_t> unclear_;
};

}  // namespace carma::daemon
