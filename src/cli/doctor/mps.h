// Checks of MPS: whether CARMA can start its control daemons, which of them run, and whether
// somebody else's does (docs/server/collocation.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "task/mps/mps_control.h"

namespace carma::cli {

// What came of a control daemon that was started, asked and ended; empty: none was.
using MpsTrial = std::optional<base::Result<task::MpsAbilities>>;

// Starts one as this user in a folder of its own, if the settings ask for MPS or leave it open.
// Blocks up to collocation.mps_timeout and a second.
MpsTrial TryMps(const config::Settings& settings);

// Looks below `root` ("" on a real machine). search_path: folders as in $PATH. is_daemon_user: what
// this process may write, carmad may too.
std::vector<Finding> CheckMps(const std::string& root, const config::Settings& settings,
                              const std::string& search_path, bool is_daemon_user,
                              const MpsTrial& trial);

}  // namespace carma::cli
