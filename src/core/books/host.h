// The machine's own cores and memory: what of them is promised to which task. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/policy/policy.h"
#include "core/values/task.h"

namespace carma::core {

// What there is for tasks, as the shell tells it; of a machine that nobody has described nothing is
// counted, and nobody waits for it.
struct HostInfo {
  int cpus = 0;                 // that may be promised; 0: not counted
  std::int64_t memory_mib = 0;  // likewise
  // Hardware threads that tasks may have of their own, by their numbers, in the order in which they
  // are given out (threads of one core beside each other).
  std::vector<int> cores;
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

// What guards see of it at one moment.
struct HostView {
  int cpus = 0;
  int free_cpus = 0;
  int cores = 0;       // that tasks may have of their own
  int free_cores = 0;  // that none has
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;
  // Kept for a task that has waited for long enough; what is free is without it.
  std::optional<TaskId> kept_for;
};

// The same as CheckHost says, without words.
bool FitsHost(const HostNeed& need, const HostView& host);
// May a task start that needs so much? kNever for more than there is. Reasons: kCpus, kHostMemory.
Verdict CheckHost(const HostNeed& need, const HostView& host);

// What an attempt was promised, in words: "4 CPUs of its own (0-3) and 8.0G of memory"; empty:
// nothing.
std::string TextOf(const HostShare& share);

// The books of it.
class HostBooks {
 public:
  // From now on; what is promised stays so.
  void Open(HostInfo info);
  const HostInfo& info() const { return info_; }

  // What a task that needs so much would be promised, if CheckHost lets it start. near: the threads
  // beside its GPUs, which are given first where it wants some of its own.
  HostShare ShareFor(const HostNeed& need, std::span<const int> near) const;
  // Books it, once. A task that was promised nothing is passed over.
  void Take(TaskId task, const HostShare& share);
  // Releasing twice is harmless.
  void Release(TaskId task);

  HostView View() const;
  // The same while that is kept for a task (HostView::kept_for).
  HostView ViewWithout(TaskId task, const HostNeed& kept) const;
  // Empty: nothing.
  const HostShare* ShareOf(TaskId task) const;
  std::size_t tasks() const { return shares_.size(); }
  // Threads that tasks have of their own, and whose they are.
  const std::map<int, TaskId>& owners() const { return owners_; }
  // What part of the machine that is: the larger of its parts of the CPUs and of the memory, 0..1.
  double PartOf(int cpus, std::int64_t memory_mib) const;
  // Another number whenever there may be more than before.
  std::uint64_t changes() const { return changes_; }

 private:
  HostInfo info_;
  std::map<TaskId, HostShare> shares_;
  int cpus_ = 0;                  // promised
  std::int64_t memory_mib_ = 0;   // likewise
  std::map<int, TaskId> owners_;  // of threads
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
