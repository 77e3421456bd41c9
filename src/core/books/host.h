// The machine's cores and main memory, and the part that is promised to each task.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/policy/policy.h"
#include "core/values/ids.h"
#include "core/values/promise.h"

namespace carma::core {

// Cores and memory available to tasks. Until the shell reports them, nothing is counted, and no
// task waits for cores or memory.
struct HostInfo {
  int cpus = 0;                 // can be promised to tasks; 0: not counted
  std::int64_t memory_mib = 0;  // can be promised to tasks; 0: not counted
  // Numbers of the hardware threads that can be dedicated to tasks, in the order of assignment
  // (threads of one core are adjacent).
  std::vector<int> cores;
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

// The state of the machine at one moment, as guards see it.
struct HostView {
  int cpus = 0;
  int free_cpus = 0;
  int cores = 0;       // can be dedicated to tasks
  int free_cores = 0;  // not held by any task
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;
  // The task, which has waited long, for which cores and memory are kept. These do not count as
  // free.
  std::optional<TaskId> kept_for;
};

// Whether CheckHost would let the task start. Faster, because it writes no reason.
bool FitsHost(const HostNeed& need, const HostView& host);
// Whether a task with this need may start. kNever if the machine does not have that much. Reasons:
// kCpus, kHostMemory.
Verdict CheckHost(const HostNeed& need, const HostView& host);

// The promise of an attempt as text: "4 CPUs of its own (0-3) and 8.0G of memory". Empty if nothing
// is promised.
std::string TextOf(const HostShare& share);

// Records which task holds which cores and memory.
class HostBooks {
 public:
  // Sets what is available from now on; existing promises stay.
  void Open(HostInfo info);
  const HostInfo& info() const { return info_; }

  // The promise to a task with this need if CheckHost lets it start. near: the threads close to its
  // GPUs, which are preferred for dedicated cores.
  HostShare ShareFor(const HostNeed& need, std::span<const int> near) const;
  // Records the promise. Called once per task. A task without a promise is ignored.
  void Take(TaskId task, const HostShare& share);
  // Releases what the task was promised. Releasing twice is harmless.
  void Release(TaskId task);

  HostView View() const;
  // The view in which `kept` is set aside for a task (HostView::kept_for).
  HostView ViewWithout(TaskId task, const HostNeed& kept) const;
  // The promise of the task; null if it has none.
  const HostShare* ShareOf(TaskId task) const;
  std::size_t tasks() const { return shares_.size(); }
  // Dedicated threads, and the tasks that hold them.
  const std::map<int, TaskId>& owners() const { return owners_; }
  // The larger of the share of the CPUs and the share of the memory, 0..1.
  double PartOf(int cpus, std::int64_t memory_mib) const;
  // A counter that changes whenever more may be free than before.
  std::uint64_t changes() const { return changes_; }

 private:
  HostInfo info_;
  std::map<TaskId, HostShare> shares_;
  int cpus_ = 0;                  // promised CPUs
  std::int64_t memory_mib_ = 0;   // promised memory
  std::map<int, TaskId> owners_;  // by thread
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
