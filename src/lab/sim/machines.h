// Tracks the simulated GPUs' memory, speed, activity and power, and their servers' cores, while
// tasks use them. Private to sim.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "lab/sim/layout.h"
#include "lab/sim/models.h"
#include "lab/sim/recorder.h"
#include "lab/sim/sim_gpu.h"
#include "lab/sim/simulate.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

class Machines {
 public:
  // A task that computes on GPUs. The functions below identify it by `job`, a number that the
  // caller chooses.
  struct Resident {
    core::TaskId id{};
    const trace::Workload* workload = nullptr;
    std::vector<std::uint32_t> gpus;     // SimGpus
    std::vector<std::uint32_t> servers;  // the servers of these GPUs
    std::uint32_t user = 0;              // as in Load::user
    double cores = 0;                    // cores that its data loading needs, on all servers
    std::int64_t limit_mib = 0;          // its memory limit on each GPU; 0: none
    bool alone = false;                  // not an MPS client
  };
  // Called when a task's pace (work seconds per second) changes.
  using PaceChanged = std::function<void(std::uint32_t job, double pace)>;

  // The cards start to draw power at time `from`. All arguments must outlive this object. recorder:
  // null if no series are recorded.
  Machines(const RunOptions& options, const Layout& layout, base::Time from, Recorder* recorder,
           PaceChanged pace_changed);

  // Counts a task's process on this GPU, even if the process holds no memory on it.
  void AddProcess(std::uint32_t gpu);
  void RemoveProcess(std::uint32_t gpu);
  int IdleGpus(std::uint32_t server) const { return hosts_[server].idle_gpus; }

  // True if the task's first allocation fits.
  bool HasRoom(const Resident& resident) const;
  // The task allocates its memory and starts to compute.
  void Enter(base::Time now, std::uint32_t job, Resident resident);
  // Applies the memory model to the task. since: time since the task's first allocation. Returns
  // false if the task has run out of memory and left.
  bool Resize(base::Time now, std::uint32_t job, base::Duration since);
  void Leave(base::Time now, std::uint32_t job);

  const SimGpu& gpu(std::uint32_t gpu) const { return gpus_[gpu]; }
  // Number of processes on the GPU that do not hold memory yet or no longer hold any.
  int Loading(std::uint32_t gpu) const {
    return processes_[gpu] - static_cast<int>(gpus_[gpu].occupants().size());
  }
  core::TaskId IdOf(const Occupant& occupant) const { return residents_[occupant.job].resident.id; }
  // Number of the server's cores that its tasks keep busy; empty if it has not changed since the
  // last call.
  std::optional<core::HostSampled> TakeHostSample(std::uint32_t server);

  std::vector<SimDevice>& cards() { return cards_; }
  void CheckEmpty() const;  // Call this after the last task has ended.

 private:
  struct Pace {
    Resident resident;
    std::vector<double> on_each;  // speed on each of its GPUs
    double slowest = 0;
  };
  struct Host {
    double wanted_cores = 0;  // cores that computing tasks need
    int computing = 0;        // number of computing tasks
    double factor = 1;        // result of HostFactor
    bool changed = false;     // since the last sample
    int idle_gpus = 0;        // GPUs without any process
  };

  std::int64_t FirstMib(const Resident& resident, std::size_t part) const;
  // True if a part of a task can grow from `held_mib` to `mib` on a GPU that `tasks` tasks share.
  bool Fits(const Resident& resident, std::size_t part, std::int64_t mib, std::int64_t held_mib,
            std::int64_t tasks) const;
  double CoresOn(const Resident& resident, std::uint32_t server) const;
  void RecomputeAll(base::Time now, const Resident& resident);
  void RecomputeHost(base::Time now, std::uint32_t server);
  void Recompute(base::Time now, std::uint32_t gpu);
  void SetPace(base::Time now, std::uint32_t job);
  void SetActivity(base::Time now, std::uint32_t gpu);
  core::SharingMethod SharingOn(std::uint32_t gpu) const;

  const RunOptions& options_;
  const Layout& layout_;
  Recorder* const recorder_;
  const PaceChanged pace_changed_;
  const core::SharingMethod sharing_;
  std::vector<SimGpu> gpus_;
  std::vector<int> processes_;  // on each SimGpu
  std::vector<SimDevice> cards_;
  std::vector<Host> hosts_;      // by server
  std::vector<Pace> residents_;  // by task number
  // Scratch buffers for one recomputation.
  std::vector<Load> loads_;
  std::vector<double> speeds_;
};

}  // namespace carma::sim
