// Shows how to install a missing program on this distribution.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

enum class Missing { kDriver, kMps, kDcgm, kMail, kCurl };

// " (sudo apt install curl)", for a remedy that begins with "install curl"; empty if the
// distribution (/etc/os-release below `root`) is unknown.
std::string InstallCommand(const std::string& root, Missing what);
// The same command, from the text of /etc/os-release.
std::string InstallCommandFor(std::string_view os_release, Missing what);

}  // namespace carma::cli
