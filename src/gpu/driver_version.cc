// Reads the versions of the loaded and the installed driver.
#include "gpu/driver_version.h"

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/text.h"

namespace carma::gpu {
namespace {

constexpr std::array kFolders{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                              "/usr/lib64", "/usr/lib"};
constexpr std::size_t kMaxVersion = 100;

bool IsVersion(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos &&
         text.contains('.');
}

// The version in a file name such as "libnvidia-ml.so.550.54.15", the target of the link
// "libnvidia-ml.so.1".
std::optional<std::string> VersionOfFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) return std::nullopt;
  const std::string name = file.filename();
  constexpr std::string_view kMark = ".so.";
  const std::size_t mark = name.find(kMark);
  if (mark == std::string::npos) return std::nullopt;
  std::string version = name.substr(mark + kMark.size());
  return IsVersion(version) ? std::optional(std::move(version)) : std::nullopt;
}

}  // namespace

InstalledDriver ReadInstalledDriver(const std::string& nvml_library, const std::string& root) {
  InstalledDriver versions;
  if (const auto text = base::ReadFile(root + "/sys/module/nvidia/version", kMaxVersion)) {
    if (const std::string_view word = base::Trim(*text); IsVersion(word)) versions.loaded = word;
  }
  if (nvml_library.contains('/')) {
    versions.installed = VersionOfFile(root + nvml_library);
    return versions;
  }
  for (const char* folder : kFolders) {
    versions.installed = VersionOfFile(root + folder + "/" + nvml_library);
    if (versions.installed) break;
  }
  return versions;
}

}  // namespace carma::gpu
