// Checks whether the loaded kernel driver and the libraries on disk have the same version. After a
// package upgrade they differ until the machine reboots or the modules are reloaded. Until then,
// every new CUDA program fails.
#pragma once

#include <optional>
#include <string>

namespace carma::gpu {

struct InstalledDriver {
  std::optional<std::string> loaded;     // "550.54.15", the kernel module's version
  std::optional<std::string> installed;  // version of the library that a program would load now
  bool Differ() const { return loaded && installed && *loaded != *installed; }
};

// nvml_library: a path, or a file name to look up in the usual folders. root: used instead of "/".
// Unknown versions are empty. Reads a few small files.
InstalledDriver ReadInstalledDriver(const std::string& nvml_library, const std::string& root = "");

}  // namespace carma::gpu
