// Checks of single GPUs and instances, and of how a server is divided (MIG).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "gpu/probe.h"

namespace carma::cli {

// Findings on the sources of readings, the resulting rule, condition, modes and processes.
std::vector<Finding> CheckGpu(std::size_t index, const DriverFacts& driver,
                              const config::Settings& settings);
// Findings on the instances and their effect on tasks, and on modes that need a reset; empty on a
// server without MIG. Needs a list of GPUs.
std::vector<Finding> CheckMig(const DriverFacts& driver, const config::Settings& settings);

// Names of the reported activity counters, and of the other reported values.
std::vector<std::string> ReportedCounters(const gpu::Reading& reading);
std::vector<std::string> ReportedValues(const gpu::Reading& reading);

}  // namespace carma::cli
