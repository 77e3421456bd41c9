// The books of GPU memory: what was promised to which task, what was seen, what others use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/plateau.h"
#include "core/values/task.h"

namespace carma::core {

// A task on one GPU, from the decision to its release.
struct Resident {
  TaskId task{};
  std::int64_t claim_mib = 0;
  std::int64_t observed_mib = 0;  // in the last sample; 0 before it shows up
  bool exclusive = false;
  double sm_share = 0;  // of the SMs, as its task declares; 0: it declares none
  Time launched{};
  std::optional<Time> first_seen;  // `taken` of the first sample in which it held memory
  Plateau memory;
  std::optional<double> sm_active;  // as measured, had it this GPU alone
};
// What is kept for it: the larger of what it claimed and what is seen of it; of one whose memory
// has stood still since `plateau_from`, no more than NeedAfterPlateau of its peak.
std::int64_t PromiseOf(const Resident& resident, Time plateau_from);

// Memory of one GPU in MiB.
struct Account {
  std::int64_t claimed_mib = 0;   // sum of claims
  std::int64_t promised_mib = 0;  // sum of PromiseOf
  std::int64_t foreign_mib = 0;   // used by nobody of ours
  std::int64_t free_mib = 0;      // what may still be promised; never below 0
};

class Ledger {
 public:
  // usable_mib of each GPU: total - reserved.
  void Open(const std::vector<std::int64_t>& usable_mib);

  // Books a claim. The task must not be on that GPU yet; nothing has been seen of it there.
  void Claim(GpuIndex gpu, const Resident& newcomer);
  // Frees every claim of the task; what was seen of it is forgotten at once, since its processes
  // are gone. Releasing twice is harmless.
  void Release(TaskId task);
  // Takes over what a sample says. True: some task's memory has risen, or is in doubt, so that it
  // stands still from now on (Plateau).
  bool Observe(GpuIndex gpu, const GpuSample& sample);

  // Resident::sm_active of a task that is there.
  void NoteActivity(GpuIndex gpu, TaskId task, double sm_active);

  // By task id.
  std::span<const Resident> ResidentsOf(GpuIndex gpu) const;
  // free = usable - foreign - promised, foreign = used - sum of observed. When the last sample
  // could not attribute all memory: usable - max(used, promised + last known foreign).
  // plateau_from: PromiseOf's; by default nobody's memory has stood still for long enough.
  Account AccountOf(GpuIndex gpu, Time plateau_from = Time::min()) const;
  // Highest peak of the task on one of its GPUs, if it has stood still on all of them since then.
  std::optional<std::int64_t> PlateauOf(TaskId task, Time plateau_from) const;
  // Free by the last sample alone, promises not counted; never below 0.
  std::int64_t SeenFreeMib(GpuIndex gpu) const;
  // GPUs of the task, none if it holds no claim.
  std::span<const GpuIndex> GpusOf(TaskId task) const;
  const std::map<TaskId, std::vector<GpuIndex>>& Tasks() const { return gpus_of_; }
  std::size_t tasks() const { return gpus_of_.size(); }

 private:
  struct Book {
    std::int64_t usable_mib = 0;
    std::int64_t used_mib = 0;           // last sample, less what has been released since
    std::int64_t known_foreign_mib = 0;  // of the last sample that attributed everything
    bool attributed = true;
    std::vector<Resident> residents;  // by task id
  };
  std::vector<Book> books_;
  std::map<TaskId, std::vector<GpuIndex>> gpus_of_;
};

}  // namespace carma::core
