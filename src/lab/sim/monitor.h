// Takes the daemons' samples, but only those that can affect a scheduler. Private to sim.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "lab/sim/agenda.h"
#include "lab/sim/layout.h"
#include "lab/sim/machines.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// Samples are due in the last millisecond of each period, but most of them cannot change a
// decision. In on-demand mode, a GPU is therefore sampled only
// - at the first tick after each change on the GPU,
// - at every tick while tasks wait and readings still change,
// - before a decision, if no task was waiting.
// The scheduler decides as if it had every sample.
class Monitor {
 public:
  // Counts the tasks in a server's scheduler that have no GPUs yet.
  struct Queue {
    int waiting = 0;
    int recovering = 0;  // how many of the `waiting` tasks are in the recovery queue
  };

  // All arguments must outlive this object.
  Monitor(const MonitorOptions& options, const Layout& layout, const Machines& machines);

  // Adds the first sample of each of the server's GPUs to `events`.
  void Begin(std::uint32_t server, std::vector<core::Event>& events) const;
  // Adds the samples of a tick at `now` to `events`.
  void Tick(std::uint32_t server, base::Time now, const Queue& queue,
            std::vector<core::Event>& events);
  // In on-demand mode, adds to `events` the samples that a decision at `now` needs.
  void CatchUp(std::uint32_t server, base::Time now, const Queue& queue,
               std::vector<core::Event>& events);
  // True if the next tick must take a sample.
  bool WantsTick(std::uint32_t server, const Queue& queue) const;
  base::Time TickAfter(base::Time when) const;

  std::int64_t samples() const { return samples_; }

 private:
  // A GPU's last sample.
  struct Observed {
    std::int64_t used_mib = 0;
    std::vector<std::pair<core::TaskId, std::int64_t>> tasks_mib;
    base::Time sampled = kDaemonsStart;
    std::uint64_t changes = 0;  // the GPU's change count at that time
  };

  bool OnDemand() const { return options_.mode == MonitorOptions::Mode::kOnDemand; }
  core::GpuSampled Sample(std::uint32_t gpu, base::Time taken);
  core::GpuSampled SampleAsLast(std::uint32_t gpu, base::Time taken) const;
  bool HasChanged(std::uint32_t gpu) const {
    return machines_.gpu(gpu).changes() != observed_[gpu].changes;
  }
  bool IsMoving(std::uint32_t gpu) const;
  bool MayOpen(std::uint32_t server, const Queue& queue) const;

  const MonitorOptions& options_;
  const Layout& layout_;
  const Machines& machines_;
  std::vector<Observed> observed_;  // by SimGpu
  std::int64_t samples_ = 0;
};

}  // namespace carma::sim
