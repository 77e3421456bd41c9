// Why attempts ended, by their own words, the driver and their MPS server; and what their ends
// teach.
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

// What the GPUs' readings say about an end.
class GpuEvidence {
 public:
  virtual ~GpuEvidence() = default;
  // Highest share of the GPU's memory in use just before now.
  virtual std::optional<double> RecentFullness(core::GpuIndex gpu) = 0;
  // Xids that this GPU announced just before now, newest last, of those the ones since then:
  // what was before a task is no fault of its.
  virtual std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) = 0;
  // The task of which a process made the last fault on this GPU since then, as the kernel's log
  // names it; empty: no fault, or nobody can say whose.
  virtual std::optional<core::TaskId> FaultyTask(core::GpuIndex, base::Time) { return {}; }
  // Why this GPU cannot be reached any more, as its last reading told; empty: it can.
  virtual std::string LostGpu(core::GpuIndex) { return ""; }
  // Calls with what keeps CUDA from working on one of these GPUs, once that was tried; empty: it
  // works, or nobody can tell.
  virtual void TryCuda(const std::vector<core::GpuIndex>&,
                       std::function<void(const std::string& trouble)> call) {
    call("");
  }
  // Calls, later, once a reading that begins after now has been taken, or is overdue.
  virtual void AfterNextReading(std::function<void()> call) = 0;
};

class Ends {
 public:
  // All outlive it. The core is only asked; TaskExited is posted.
  Ends(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
       base::Clock& clock, GpuEvidence& gpus, PostEvent post);

  // An attempt ended, as its shim reports (kExited). An end that its own words explain, or nothing
  // can, is posted at once; else the driver's next reading and the MPS server are asked before.
  void Take(const task::ShimEvent& event);

  // Memory that the driver does not tell of makes peaks that are not to be trusted.
  void Watch(const core::GpuSampled& sampled);
  // What the attempt that has just left its GPUs taught, once; empty: nothing.
  std::optional<task::Observation> Learn(const core::TaskRecord& record);
  // The task is final, and durably so.
  void Forget(core::TaskId id);

 private:
  struct EndedAttempt {
    estimate::RanOn where;
    base::Duration watched{0};                 // since it started, or since this daemon did
    std::optional<task::AllocatorWords> told;  // by its own output
  };

  void NoteEnd(const core::TaskRecord& record, const std::optional<task::AllocatorWords>& told);
  bool IsOpen(const task::ShimEvent& event, const core::TaskRecord& record) const;
  bool NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record);
  bool NeedsMpsEvidence(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // By its words it could not begin to use CUDA, moments after its start.
  bool CouldNotBegin(const task::ShimEvent& event, const core::TaskRecord& record) const;
  // Its GPU is to blame: the attempt does not count.
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
  base::Time opened_;  // what happened before was not watched by this daemon
  // Ends that are looked at more closely before the core hears of them.
  std::unordered_map<std::uint64_t, task::ShimEvent> unjudged_;
  // Attempts that their shims have reported as ended, until the core has judged them.
  std::unordered_map<std::uint64_t, EndedAttempt> ended_;
  // Tasks whose memory the driver did not tell at some time.
  std::unordered_set<std::uint64_t> unclear_;
};

}  // namespace carma::daemon
