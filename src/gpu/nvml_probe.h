// Reads NVIDIA GPUs through NVML, which is loaded at run time.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "gpu/nvml_devices.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
// How often a GPU's condition (Reading::condition) is read. In between, the last condition is
// repeated, because some of these calls take longer than all other calls together.
inline constexpr base::Duration kConditionSpan{10'000};

class NvmlProbe : public Probe {
 public:
  // Sets the options for later calls to Devices(). If GPUs are excluded, Read() fails after a
  // driver reload until Devices() is called again.
  virtual void SetListing(NvmlListing listing) = 0;
  // NVML's index of this device's GPU (the parent GPU for a MIG instance). `device` is an index
  // into the list last returned by Devices().
  virtual std::uint32_t NumberOf(std::size_t device) const = 0;
};

// Loads the library (a path, or a file name for the dynamic linker) without calling the driver yet.
// Each Devices() initialises NVML, as does the first call after the driver has come back. Fails
// with kUnavailable if the library is missing or lacks a function for initialising NVML, listing
// devices or reading their memory. If any other function is missing, its value is absent.
//
// SM activity and the other counters are means between two consecutive Read()s of a device (NVML's
// GPM, converted from percent to fractions). The first Read() covers the time since Devices().
// Read() fails if memory, processes, SM activity, utilisation, power, energy or temperature has an
// error or an invalid value, because decisions depend on them. Any other value with an error is
// absent. Every call about a lost GPU returns kNotFound.
Result<std::unique_ptr<NvmlProbe>> LoadNvmlProbe(const std::string& library = kNvmlLibrary);

// Creates the probe for a library that is already loaded.
std::unique_ptr<NvmlProbe> MakeNvmlProbe(NvmlLibrary library);

// Versions of the driver's parts. Unknown versions are empty.
struct DriverVersions {
  std::string driver;  // "550.54.15"
  std::string nvml;    // NVML's own version: "12.550.54.15"
  std::string cuda;    // the newest CUDA that the driver supports: "12.4"
};
// Why there is no driver.
struct NoDriver {
  std::string message;                    // one line, human-readable
  std::optional<nvml::Return> nvml_code;  // empty: NVML was not called, or did not respond
};
// May block.
std::expected<DriverVersions, NoDriver> AskDriverVersions(
    const std::string& library = kNvmlLibrary);

}  // namespace carma::gpu
