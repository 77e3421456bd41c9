// Checks each GPU and MIG instance, and how the server's GPUs are partitioned by MIG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "gpu/probe.h"

namespace carma::cli {

// Checks where a GPU's readings come from, which sharing rule follows from that, and the GPU's
// condition, modes and processes.
std::vector<Finding> CheckGpu(std::size_t index, const DriverFacts& driver,
                              const config::Settings& settings);
// Lists the MIG instances and what they mean for tasks, and warns of MIG mode changes that take
// effect only after a GPU reset. Empty on a server without MIG. driver.gpus must not be an error.
std::vector<Finding> CheckMig(const DriverFacts& driver, const config::Settings& settings);

// Names of activity counters (CounterNames) or of all other values (ValueNames): those that the GPU
// reports if `told` is true, otherwise those that it does not.
std::vector<std::string> CounterNames(const gpu::Reading& reading, bool told);
std::vector<std::string> ValueNames(const gpu::Reading& reading, bool told);

}  // namespace carma::cli
