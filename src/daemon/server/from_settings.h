// Derives the options of the daemon's components from its configuration.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "config/settings.h"
#include "core/values/gpu.h"
#include "daemon/engine/engine_options.h"
#include "daemon/engine/mps_servers.h"
#include "daemon/engine/notice_sender.h"
#include "daemon/gpus/monitor.h"
#include "daemon/loop/configuration.h"
#include "estimate/appraiser.h"
#include "gpu/reader/load_probe.h"
#include "task/mps/mps_control.h"
#include "task/process/cgroup.h"
#include "task/process/host_facts.h"

namespace carma::daemon {

// A simulated server has its own clock, which the daemon and the tasks share.
Result<std::unique_ptr<base::Clock>> MakeClock(const config::Settings& settings);
// reader: the path of carma-reader.
gpu::ProbeOptions ProbeOptionsOf(const config::Settings& settings, const base::Clock& clock,
                                 const std::string& reader);
task::MpsSetup MpsSetupOf(const config::Settings& settings, const std::string& shim_path);
MpsServersOptions MpsServersOptionsOf(const config::Settings& settings, const base::Clock& clock,
                                      const std::string& shim_path);
MonitorOptions MonitorOptionsOf(const config::Settings& settings);
// program: the path of carma-notify.
NoticeSenderOptions SenderOptionsOf(const config::Settings& settings, const std::string& program);

// Returns `rules` with the values from the configuration filled in.
estimate::AppraisalRules AppraisalRulesOf(const Configuration::InForce& in_force,
                                          estimate::AppraisalRules rules);

// The engine's options. collocation.method must already be resolved. Members that do not come from
// the configuration (loop, mps, limiter, history, job_return) are left empty.
EngineOptions EngineOptionsOf(const config::Settings& settings, const task::HostFacts& machine,
                              const task::CgroupControls& controls);

// Converts the GPUs to the core's format and adds the CPUs near each GPU. These CPUs are read from
// the system, or made up for simulated GPUs.
std::vector<core::GpuInfo> GpuInfosOf(const config::Settings& settings,
                                      const std::vector<gpu::DeviceInfo>& devices,
                                      const task::HostFacts& machine);

}  // namespace carma::daemon
