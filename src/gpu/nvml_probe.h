// Reads NVIDIA GPUs through NVML, loaded at run time.
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
// The condition of a GPU (Reading::condition) is read this often and repeated in between, because
// some of these calls take longer than all other calls together.
inline constexpr base::Duration kConditionSpan{10'000};

class NvmlProbe : public Probe {
 public:
  // Sets the options of later calls of Devices(). If GPUs are left out, Read() fails after a reload
  // of the driver until Devices() is called.
  virtual void SetListing(NvmlListing listing) = 0;
  // NVML's number of the GPU that is, or contains, this device of the last Devices().
  virtual std::uint32_t NumberOf(std::size_t device) const = 0;
};

// Loads the library (a file name for the dynamic linker, or a path). Does not call the driver yet:
// each Devices() initialises it, as does the first call after the driver has come back. Missing
// functions leave their value absent; only initialisation, the list of devices and their memory are
// required. SM activity and the other counters are means between two consecutive Read()s of a
// device (NVML's GPM, percent turned into fractions); the first Read() looks back to Devices(). A
// Read() fails on an error or an invalid value of memory, processes, SM activity, utilisation,
// power, energy or temperature, because decisions depend on them; other values are then absent. A
// lost GPU is kNotFound for every call. Errors: kUnavailable if the library is missing or lacks
// required functions.
Result<std::unique_ptr<NvmlProbe>> LoadNvmlProbe(const std::string& library = kNvmlLibrary);

// The same for a library that is already loaded.
std::unique_ptr<NvmlProbe> MakeNvmlProbe(NvmlLibrary library);

// Unknown versions are empty.
struct DriverVersions {
  std::string driver;  // "550.54.15"
  std::string nvml;    // NVML's own version: "12.550.54.15"
  std::string cuda;    // the newest CUDA that the driver supports: "12.4"
};
// Why there is no driver.
struct NoDriver {
  std::string message;                    // one line, for people
  std::optional<nvml::Return> nvml_code;  // empty: NVML was not called, or gave no answer
};
// May block.
std::expected<DriverVersions, NoDriver> AskDriverVersions(
    const std::string& library = kNvmlLibrary);

}  // namespace carma::gpu
