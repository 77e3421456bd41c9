// Determines why attempts ended, based on their output, the driver and their MPS server. Produces
// the observations that CARMA learns from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
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
  // Largest fraction of the GPU's memory that was in use recently.
  virtual std::optional<double> RecentFullness(core::GpuIndex gpu) = 0;
  // The Xids that this GPU reported in the last few seconds, newest last. Excludes Xids reported
  // before `since`, because the task did not cause them.
  virtual std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) = 0;
  // The task whose process caused the last fault on this GPU after the given time, according to the
  // kernel log. Empty if there was no fault or its cause is unknown.
  virtual std::optional<core::TaskId> FaultyTask(core::GpuIndex, base::Time) { return {}; }
  // Why this GPU was unreachable in its last reading; empty if it was reachable.
  virtual std::string LostGpu(core::GpuIndex) { return ""; }
  // Tests CUDA on these GPUs, then calls `call` with the reason why CUDA fails on one of them. The
  // reason is empty if CUDA works or the test is inconclusive.
  virtual void TryCuda(const std::vector<core::GpuIndex>&,
                       std::function<void(const std::string& trouble)> call) {
    call("");
  }
  // Calls `call` when the next reading completes or is overdue, but never before this function
  // returns. A reading that is already in progress does not count.
  virtual void AfterNextReading(std::function<void()> call) = 0;
};

class Ends {
 public:
  // All arguments must outlive this object. Posts TaskExited.
  Ends(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
       base::Clock& clock, GpuEvidence& gpus, PostEvent post);

  // Must be called before this daemon writes to the store.
  Result<Unit> Open();

  // When the attempt ended, according to this kExited or kLaunchFailed event; empty if it has just
  // ended. If it ended at an unknown time while no carmad was running, returns when carmad last
  // wrote to the store. Its user is not charged for the time since then.
  std::optional<base::Time> EndOf(const task::ShimEvent& event) const;

  // Handles the end of an attempt, as reported by its shim (kExited). Posts the end immediately if
  // the task's output explains it or no other evidence could explain it. Otherwise first waits for
  // the next driver reading and the MPS server's response.
  void Take(const task::ShimEvent& event);

  // Records the tasks whose memory the driver did not report, because their peaks are unreliable.
  void Watch(const core::GpuSampled& sampled);
  // Returns the observation from the attempt that just left its GPUs; empty if there is none. Only
  // the first call for an attempt returns one.
  std::optional<task::Observation> Learn(const core::TaskRecord& record);
  // Must be called once the task's final state is stored.
  void Forget(core::TaskId id);

 private:
  struct EndedAttempt {
    estimate::RanOn where;
    // Time since the start of the attempt or of this daemon, whichever was later.
    base::Duration watched{0};
    std::optional<task::AllocatorWords> told;  // from the attempt's output
  };

  void NoteEnd(const core::TaskRecord& record, const std::optional<task::AllocatorWords>& told);
  bool IsOpen(const task::ShimEvent& event, const core::TaskRecord& record) const;
  bool NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record);
  bool NeedsMpsEvidence(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // True if the attempt ended shortly after its launch and its output shows that it could not
  // initialise CUDA.
  bool CouldNotBegin(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Ends an attempt that failed because of a broken GPU. The task is retried without counting the
  // failure.
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
  base::Time opened_;                       // when this daemon began to watch attempts
  std::optional<base::Time> last_written_;  // by an earlier daemon
  // Reported ends whose cause still depends on further evidence.
  std::unordered_map<std::uint64_t, task::ShimEvent> unjudged_;
  // Attempts whose end the shim has reported but the core has not handled yet.
  std::unordered_map<std::uint64_t, EndedAttempt> ended_;
  // Tasks whose memory the driver failed to report at least once.
  std::unordered_set<std::uint64_t> unclear_;
};

}  // namespace carma::daemon
