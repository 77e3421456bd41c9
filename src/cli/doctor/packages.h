// Shows how to install a missing program on this distribution.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

enum class Missing { kDriver, kMps, kDcgm, kMail, kCurl };

// Returns the install command in parentheses, " (sudo apt install curl)", to be appended to a
// remedy such as "install curl". Empty if the distribution (/etc/os-release below `root`) is
// unknown.
std::string InstallCommand(const std::string& root, Missing what);
// The same command, from the text of /etc/os-release.
std::string InstallCommandFor(std::string_view os_release, Missing what);

}  // namespace carma::cli
