// Checks single GPUs and MIG instances, and how a server is partitioned.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "gpu/probe.h"

namespace carma::cli {

// Findings on a GPU: the sources of its readings, the resulting sharing rule, its condition, modes
// and processes.
std::vector<Finding> CheckGpu(std::size_t index, const DriverFacts& driver,
                              const config::Settings& settings);
// Findings on the MIG instances, their effect on tasks, and modes that change only at a reset.
// Empty on a server without MIG. driver.gpus must be a list.
std::vector<Finding> CheckMig(const DriverFacts& driver, const config::Settings& settings);

// The names of the activity counters, and of all other values, that the GPU reports (told) or does
// not report (not told).
std::vector<std::string> CounterNames(const gpu::Reading& reading, bool told);
std::vector<std::string> ValueNames(const gpu::Reading& reading, bool told);

}  // namespace carma::cli
