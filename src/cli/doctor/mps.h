// Checks MPS (docs/server/collocation.md): whether CARMA can start its control daemons, which of
// them are running, and whether other MPS daemons are running.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "task/mps/mps_control.h"

namespace carma::cli {

// The result of starting, querying and stopping a control daemon; empty if this was not tried.
using MpsTrial = std::optional<Result<task::MpsAbilities>>;

// Starts a control daemon as this user in a temporary folder, if the settings allow MPS.
// is_daemon_user: see CheckMps. Blocks up to collocation.mps_timeout plus a second.
MpsTrial TryMps(const config::Settings& settings, bool is_daemon_user);

// Returns the method by which tasks share a GPU. carmads_line: a running carmad's description of
// its method ("streams: at most …"); empty if none is running. For collocation.method = "auto",
// takes the method from this line or, failing that, from the MPS trial; the default is MPS.
core::SharingMethod MethodInForce(const config::Settings& settings, std::string_view carmads_line,
                                  const MpsTrial& trial);

// Checks MPS below `root` ("" on a real machine). search_path: folders as in $PATH. is_daemon_user:
// carmad runs as the same user as this process.
std::vector<Finding> CheckMps(const std::string& root, const config::Settings& settings,
                              const std::string& search_path, bool is_daemon_user,
                              const MpsTrial& trial);

}  // namespace carma::cli
