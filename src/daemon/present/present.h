// The daemon's books as the API shows them.
#pragma once

#include <string>

#include "api/views.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "task/verdict/observation.h"

namespace carma::daemon {

// A row of the store.
api::TaskView Present(const store::StoredTask& stored);
// With what only the running daemon knows: the reason at this moment, memory seen, pid.
api::TaskView Present(const store::StoredTask& stored, const Engine& engine, const Monitor& monitor,
                      Attribution& attribution, base::Time now);
// Of a URL only its server is told.
api::NoticeView Present(const store::Notice& notice);
// Every GPU, with one look at the core's view of them.
std::vector<api::GpuView> PresentGpus(Engine& engine, const Monitor& monitor, base::Time now);
api::EventView Present(const store::StoredEvent& event);
api::RunView Present(const task::Observation& run);
api::VerdictView Present(const core::GpuVerdict& each);
api::HostVerdictView Present(const core::HostVerdict& host);
api::HostView PresentHost(const Engine& engine, bool cpu_cap);
// What nothing enforces of that share of the machine, one sentence; empty: all is.
std::string HostNote(const core::HostShare& share, const task::CgroupControls& controls);
// One line that names the rules in force: "magm, SM activity <= 80 %, margin 2.0G, floor 5.0G, …".
std::string PolicyLine(const config::Settings& settings);
// What enforces the GPU memory promised to tasks: "kernel", "mps" or "nobody".
std::string MemoryLimitsBy(const config::Settings& settings);
// What the collocation method shares and what it enforces, in one sentence; of divided GPUs too, if
// there are any. monitor: null while no GPU is known.
std::string CollocationLine(const config::Settings& settings, const Monitor* monitor);

}  // namespace carma::daemon
