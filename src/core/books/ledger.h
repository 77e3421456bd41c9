// Tracks GPU memory: what is promised to each task, what samples show, and what other processes
// use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/ids.h"
#include "core/values/plateau.h"

namespace carma::core {

// A task on one of its GPUs, from the placement decision until its release.
struct Resident {
  TaskId task{};
  std::int64_t claim_mib = 0;
  std::int64_t observed_mib = 0;  // in the last sample; 0 until the task appears in one
  bool exclusive = false;
  double sm_share = 0;  // declared SM share; 0 if none
  Time launched{};
  std::optional<Time> first_seen;  // time of the first sample that shows its memory
  Plateau memory;
  std::optional<double> sm_active;  // measured, as if running alone on this GPU
};
// The memory promised to a resident: the larger of its claim and its observed memory. At most
// NeedAfterPlateau(peak) if its memory has been stable since `plateau_from`.
std::int64_t PromiseOf(const Resident& resident, Time plateau_from);

// Memory accounting for one GPU, in MiB.
struct Account {
  std::int64_t claimed_mib = 0;   // sum of claims
  std::int64_t promised_mib = 0;  // sum of PromiseOf
  std::int64_t foreign_mib = 0;   // used by foreign processes
  std::int64_t free_mib = 0;      // can still be promised; never below 0
};

class Ledger {
 public:
  // usable_mib: the total memory of each GPU minus its reserved memory.
  void Open(const std::vector<std::int64_t>& usable_mib);

  // Records a claim by a task that is not on that GPU yet.
  void Claim(GpuIndex gpu, const Resident& newcomer);
  // Frees all of the task's claims and forgets its observed memory. Called when its processes are
  // gone. Releasing twice is harmless.
  void Release(TaskId task);
  // Records a sample. Returns true if the memory of any task has risen or has become uncertain. The
  // Plateau of such a task starts over.
  bool Observe(GpuIndex gpu, const GpuSample& sample);

  // Sets Resident::sm_active of a task on that GPU.
  void NoteActivity(GpuIndex gpu, TaskId task, double sm_active);

  // The residents, ordered by task id.
  std::span<const Resident> ResidentsOf(GpuIndex gpu) const;
  // Free memory is usable - foreign - promised, where foreign = used - sum of observed. If the last
  // sample could not attribute all memory, free memory is usable - max(used, promised + last known
  // foreign). plateau_from: see PromiseOf; by default, no task is on a plateau.
  Account AccountOf(GpuIndex gpu, Time plateau_from = Time::min()) const;
  // The task's highest peak on any of its GPUs. Empty unless its memory has been stable on all of
  // them since plateau_from.
  std::optional<std::int64_t> PlateauOf(TaskId task, Time plateau_from) const;
  // The task's highest peak on any GPU except its first, as a fraction of its highest peak on any
  // GPU. Empty if the task has only one GPU or none of its memory has been observed.
  std::optional<double> OthersShareOf(TaskId task) const;
  // Free memory according to the last sample alone, without promises; never below 0.
  std::int64_t SeenFreeMib(GpuIndex gpu) const;
  // The task's GPUs; empty if it has no claim.
  std::span<const GpuIndex> GpusOf(TaskId task) const;
  const std::map<TaskId, std::vector<GpuIndex>>& Tasks() const { return gpus_of_; }
  std::size_t tasks() const { return gpus_of_.size(); }

 private:
  struct Book {
    std::int64_t usable_mib = 0;
    std::int64_t used_mib = 0;  // in the last sample, minus what was released since then
    // Foreign memory in the last sample in which all memory could be attributed.
    std::int64_t known_foreign_mib = 0;
    bool attributed = true;
    std::vector<Resident> residents;  // by task id
  };
  std::vector<Book> books_;
  std::map<TaskId, std::vector<GpuIndex>> gpus_of_;
};

}  // namespace carma::core
