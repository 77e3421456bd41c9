// How a program that is missing is installed on this distribution.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

enum class Missing { kDriver, kMps, kDcgm, kMail, kCurl };

// " (sudo apt install curl)", for a remedy that begins with "install curl"; empty where the
// distribution, by /etc/os-release below `root`, is none that is known here.
std::string InstallCommand(const std::string& root, Missing what);
// The same from the text of that file.
std::string InstallCommandFor(std::string_view os_release, Missing what);

}  // namespace carma::cli
