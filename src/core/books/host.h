// Tracks the machine's cores and host memory, and how much of them each task has been promised.
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

// Cores and memory available to tasks. Until they are known, no task waits for cores or memory.
struct HostInfo {
  int cpus = 0;                 // can be promised to tasks; 0 if not counted
  std::int64_t memory_mib = 0;  // can be promised to tasks; 0 if not counted
  // Numbers of the hardware threads that can be dedicated to tasks, in the order in which they are
  // assigned (threads of one core are adjacent).
  std::vector<int> cores;
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

// A snapshot of the machine, as guards see it.
struct HostView {
  int cpus = 0;
  int free_cpus = 0;
  int cores = 0;       // can be dedicated to tasks
  int free_cores = 0;  // not held by any task
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;
  // The long-waiting task for which cores and memory are set aside. They do not count as free.
  std::optional<TaskId> kept_for;
};

// True if CheckHost would let the task start. Faster, because it does not build a reason.
bool FitsHost(const HostNeed& need, const HostView& host);
// Checks whether the host has room for the task. Returns kNever if even an idle machine does not
// have enough cores or memory. The reason is kCpus or kHostMemory.
Verdict CheckHost(const HostNeed& need, const HostView& host);

// An attempt's promise as text: "4 dedicated CPUs (0-3) and 8.0G of memory". Empty if nothing is
// promised.
std::string TextOf(const HostShare& share);

// Records the cores and memory that each task holds.
class HostBooks {
 public:
  // Sets what is available from now on. Existing promises are unchanged.
  void Open(HostInfo info);
  const HostInfo& info() const { return info_; }

  // Returns the share to promise to a task that has passed CheckHost. near: threads close to the
  // task's GPUs, preferred for dedicated cores.
  HostShare ShareFor(const HostNeed& need, std::span<const int> near) const;
  // Records the promise. Call it once per task. A task without a promise is ignored.
  void Take(TaskId task, const HostShare& share);
  // Releases everything promised to the task. Releasing twice is harmless.
  void Release(TaskId task);

  HostView View() const;
  // The machine's state with `kept` set aside for the task (HostView::kept_for).
  HostView ViewWithout(TaskId task, const HostNeed& kept) const;
  // The task's promise; null if it has none.
  const HostShare* ShareOf(TaskId task) const;
  std::size_t tasks() const { return shares_.size(); }
  // Dedicated threads, and the tasks that hold them.
  const std::map<int, TaskId>& owners() const { return owners_; }
  // Fraction of the machine's CPUs or of its memory, whichever is larger; 0..1.
  double PartOf(int cpus, std::int64_t memory_mib) const;
  // Incremented whenever more cores or memory might have become free.
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
