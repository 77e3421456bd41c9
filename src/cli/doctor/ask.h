// Gathers the facts for `carma doctor` from the driver, the machine, the daemon and recordings.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/calls.h"
#include "cli/doctor/context.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/machine.h"
#include "config/settings.h"
#include "gpu/reader/load_probe.h"

namespace carma::cli {

gpu::ProbeOptions ProbeOptionsOf(const config::Settings& settings);

// Waits up to 20 s for a hanging driver. A call that still hangs is left running until the process
// exits.
DriverFacts AskDriver(const config::Settings& settings);
// Returns each GPU's last reading in a recording from another machine. Propagates errors from
// ReadNamed() and ParseRecording().
Result<DriverFacts> AskRecording(const std::string& path);

// The context size that the estimates assume for a GPU type: the daemon's value, or the built-in
// one if no daemon responds.
AssumedContext AskAssumed(api::Client& client, const std::string& gpu_type,
                          const config::Settings& settings);
// Creates a context on an idle GPU of each type, one GPU after the other, and fills in `cost` or
// `not_measured`. Each context may take up to half a minute.
void MeasureContexts(const config::Settings& settings, const DriverFacts& driver,
                     std::vector<ContextFacts>& contexts);

// Describes the disk that holds the folder or, if there is no such folder, its nearest existing
// parent. is_daemon_user: carmad runs as the same user as this process.
Result<DiskFacts> AskDisk(std::string path, bool is_daemon_user);
// Compares the daemon's clock with this machine's at the time of the daemon's answer, because this
// process may have waited for a hung driver since.
ClockFacts AskClock(const DaemonFacts& daemon);
// The daemon's cgroups, or those of this process if no daemon is running.
task::CgroupBase AskCgroups(const DaemonFacts& daemon);
DaemonFacts AskDaemon(api::Client& client);

// Loads this server's configuration for commands that query its GPUs directly. file: read instead
// of the usual files unless empty. of_root: use the default paths of root's daemon.
// simulated_state: see DaemonFacts. If the GPUs are simulated, also sets CARMA_SIMGPU_STATE for the
// simulated driver, as the daemon does. Propagates errors from config::Load().
Result<config::Settings> LoadServerSettings(const std::string& file, bool of_root,
                                            const std::string& simulated_state = "");

}  // namespace carma::cli
