// Checks of single GPUs and instances, and of how a server is divided (MIG).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "gpu/probe.h"

namespace carma::cli {

// What is read from whom, the rule that follows, its condition, modes and processes.
std::vector<Finding> CheckGpu(std::size_t index, const DriverFacts& driver,
                              const config::Settings& settings);
// Which instances there are and what follows for tasks, and what waits for a reset; nothing on a
// server without any. There must be a list of GPUs.
std::vector<Finding> CheckMig(const DriverFacts& driver, const config::Settings& settings);

// Names of what the GPU told: of the counters of activity, and of the rest.
std::vector<std::string> ReportedCounters(const gpu::Reading& reading);
std::vector<std::string> ReportedValues(const gpu::Reading& reading);

}  // namespace carma::cli
