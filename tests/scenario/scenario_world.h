// The state of a scenario's GPUs at any moment: memory by task, foreign use, activity.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/scheduler/events.h"

namespace carma::sim {

struct ScenarioGpu {
  std::map<core::TaskId, std::int64_t> tasks_mib;
  std::int64_t foreign_mib = 0;
  int foreign_processes = 0;
  std::optional<double> sm_active = 0.0;
  std::optional<double> utilization;
  bool attributed = true;
  bool silent = false;  // the GPU sends no samples
};

class ScenarioWorld {
 public:
  ScenarioWorld(std::size_t gpus, base::Duration window) : gpus_(gpus), window_(window) {}
  std::size_t size() const { return gpus_.size(); }
  ScenarioGpu& Gpu(core::GpuIndex gpu) { return gpus_[Number(gpu)]; }
  // Removes the task's processes.
  void Leave(core::TaskId task);
  // Restarts the averaging windows, as after a monitor restart.
  void StartWindows(core::Time now) { windows_from_ = now; }
  core::GpuSampled Sample(core::GpuIndex gpu, core::Time now) const;
  // Returns one sample of every GPU that is not silent.
  std::vector<core::Event> Samples(core::Time now) const;

 private:
  std::vector<ScenarioGpu> gpus_;
  base::Duration window_;
  core::Time windows_from_{};
};

}  // namespace carma::sim
