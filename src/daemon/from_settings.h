// What the parts of the daemon are told of the configuration.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "core/gpu.h"
#include "daemon/engine_options.h"
#include "daemon/monitor.h"
#include "daemon/notice_sender.h"
#include "gpu/probe.h"
#include "task/mps/mps_control.h"
#include "task/process/cgroup.h"
#include "task/process/host_facts.h"

namespace carma::daemon {

task::MpsSetup MpsSetupOf(const config::Settings& settings, const std::string& shim_path);
MonitorOptions MonitorOptionsOf(const config::Settings& settings);
// `program`: carma-notify.
NoticeSenderOptions SenderOptionsOf(const config::Settings& settings, const std::string& program);

// With collocation.method decided. What is no matter of the configuration (loop, servers, history,
// the way back to Slurm) is left empty.
EngineOptions EngineOptionsOf(const config::Settings& settings, const task::HostFacts& machine,
                              const task::CgroupControls& controls);

// The GPUs found, as the core knows them. Asks the machine which cores are near which GPU; where
// the GPUs are simulated, so is that.
std::vector<core::GpuInfo> GpuInfosOf(const config::Settings& settings,
                                      const std::vector<gpu::DeviceInfo>& devices,
                                      const task::HostFacts& machine);

}  // namespace carma::daemon
