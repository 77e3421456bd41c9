// Checks of MPS: whether CARMA can start its control daemons, which of them run, and whether
// somebody else's does (docs/collocation.md).
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "config/settings.h"

namespace carma::cli {

// Looks below `root` ("" on a real machine). search_path: folders as in $PATH. is_daemon_user: what
// this process may write, carmad may too.
std::vector<Finding> CheckMps(const std::string& root, const config::Settings& settings,
                              const std::string& search_path, bool is_daemon_user);

}  // namespace carma::cli
