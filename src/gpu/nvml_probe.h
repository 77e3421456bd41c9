// Reads NVIDIA GPUs through NVML, loaded at run time.
#pragma once

#include <memory>
#include <string>

#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Loads the library (a file name for the dynamic linker, or a path). Nothing is asked of the driver
// yet: Devices() initialises it, and a driver that went away is initialised again by the next call.
// Functions that the library or a GPU lacks leave their value absent; only initialisation, the list
// of devices and their memory are indispensable. SM activity is the mean between two consecutive
// Read()s of a device (NVML's GPM, percent turned into a fraction); the first Read() looks back to
// Devices(). Errors: kUnavailable: no such library, or one without the indispensable functions.
base::Result<std::unique_ptr<Probe>> LoadNvmlProbe(const std::string& library = kNvmlLibrary);

}  // namespace carma::gpu
