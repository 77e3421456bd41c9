// Converts the daemon's state to API objects.
#pragma once

#include <string>

#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"

namespace carma::daemon {

// The task as stored.
api::TaskView Present(const store::StoredTask& stored);
// Removes what the task wrote to its error stream, because other users must not see it.
void HideErrors(api::TaskView& view);
// The stored task with live values: the current reason, measured memory and pid.
api::TaskView Present(const store::StoredTask& stored, const Engine& engine, const Monitor& monitor,
                      Attribution& attribution, base::Time now);
// If the notice's target is a URL, the view shows only its scheme, host and port.
api::NoticeView Present(const store::Notice& notice);
// All GPUs, based on one snapshot of the core.
std::vector<api::GpuView> PresentGpus(Engine& engine, const Monitor& monitor, base::Time now);
api::EventView Present(const store::StoredEvent& event);
api::VerdictView Present(const core::GpuVerdict& each);
api::HostVerdictView Present(const core::HostVerdict& host);
api::HostView PresentHost(const Engine& engine, bool cpu_cap);
// A sentence that says which promised cores and memory are not enforced; empty if all are.
std::string HostNote(const core::HostShare& share, const task::CgroupControls& controls);
// One-line summary of the rules in force, such as "by-work, margin 4.0G": the policy's name and the
// settings that differ from its defaults.
std::string PolicyLine(const config::Settings& settings);
// What enforces GPU memory limits: "kernel", "mps" or "nobody". monitor: null while no GPU is
// known.
std::string MemoryLimitsBy(const config::Settings& settings, const Monitor* monitor);
// Describes in one sentence how tasks share GPUs, including MIG GPUs, and what is enforced.
// monitor: null while no GPU is known.
std::string CollocationLine(const config::Settings& settings, const Monitor* monitor);

}  // namespace carma::daemon
