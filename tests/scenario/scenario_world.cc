#include "tests/scenario/scenario_world.h"

#include <algorithm>

namespace carma::sim {

void ScenarioWorld::Leave(core::TaskId task) {
  for (ScenarioGpu& gpu : gpus_) gpu.tasks_mib.erase(task);
}

core::GpuSampled ScenarioWorld::Sample(core::GpuIndex index, core::Time now) const {
  const ScenarioGpu& gpu = gpus_[Number(index)];
  core::GpuSample sample{.taken = now,
                         .window_from = std::max(windows_from_, now - window_),
                         .used_mib = gpu.foreign_mib,
                         .sm_active = gpu.sm_active,
                         .utilization = gpu.utilization,
                         .attributed = gpu.attributed,
                         .foreign_processes = gpu.foreign_processes};
  for (const auto& [task, mib] : gpu.tasks_mib) {
    sample.used_mib += mib;
    if (gpu.attributed) sample.tasks_mib.emplace_back(task, mib);
  }
  return {index, std::move(sample)};
}

std::vector<core::Event> ScenarioWorld::Samples(core::Time now) const {
  std::vector<core::Event> samples;
  for (std::uint32_t i = 0; i < gpus_.size(); ++i) {
    if (!gpus_[i].silent) samples.emplace_back(Sample(core::GpuIndex{i}, now));
  }
  return samples;
}

}  // namespace carma::sim
