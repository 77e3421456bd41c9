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
// The condition of a GPU (Reading::condition) is asked for this often and repeated in between: some
// of these calls take the driver longer than all others together.
inline constexpr base::Duration kConditionSpan{10'000};

class NvmlProbe : public Probe {
 public:
  // How Devices() lists from now on. With GPUs left out nothing is found again after the driver was
  // reloaded: Read() fails until Devices() has been called.
  virtual void SetListing(NvmlListing listing) = 0;
  // The number, in NVML's list, of the GPU that a device of the last Devices() is or belongs to.
  virtual std::uint32_t NumberOf(std::size_t device) const = 0;
};

// Loads the library (a file name for the dynamic linker, or a path). Nothing is asked of the driver
// yet: Devices() initialises it, each time anew, and a driver that went away is initialised again
// by the next call. Functions that the library or a GPU lacks leave their value absent; only
// initialisation, the list of devices and their memory are indispensable. SM activity and the other
// counters are means between two consecutive Read()s of a device (NVML's GPM, percent turned into
// fractions); the first Read() looks back to Devices(). What decisions rest upon (memory,
// processes, SM activity, utilisation, power, energy, temperature) makes a Read() fail when the
// driver's answer is an error or nonsense; the rest is then merely absent. A lost GPU is kNotFound,
// whichever call told it. Errors: kUnavailable: no such library, or one without the indispensable
// functions.
base::Result<std::unique_ptr<NvmlProbe>> LoadNvmlProbe(const std::string& library = kNvmlLibrary);

// The same for a library that is loaded already.
std::unique_ptr<NvmlProbe> MakeNvmlProbe(NvmlLibrary library);

// Empty: not told.
struct DriverVersions {
  std::string driver;  // "550.54.15"
  std::string nvml;    // NVML's own: "12.550.54.15"
  std::string cuda;    // the newest CUDA that the driver serves: "12.4"
};
// Why there is no driver to ask.
struct NoDriver {
  std::string message;  // one line, for people
  std::optional<nvml::Return>
      nvml_code;  // what NVML answered; empty: it was not asked, or is silent
};
// May block.
std::expected<DriverVersions, NoDriver> AskDriverVersions(
    const std::string& library = kNvmlLibrary);

}  // namespace carma::gpu
