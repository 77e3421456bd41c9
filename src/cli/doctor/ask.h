// Gathers what `carma doctor` judges: from the driver, the machine, the daemon and recordings.
#pragma once

#include <string>
#include <vector>

#include "api/views.h"
#include "base/result.h"
#include "cli/calls.h"
#include "cli/doctor/context.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/machine.h"
#include "config/settings.h"
#include "gpu/reader/load_probe.h"

namespace carma::cli {

gpu::ProbeOptions ProbeOptionsOf(const config::Settings& settings);

// Gives a driver that hangs 20 s; what hangs then is left to the end of the process.
DriverFacts AskDriver(const config::Settings& settings);
// The last answers of a recording, which somebody else's machine gave. Errors: as ReadNamed() and
// ParseRecording().
base::Result<DriverFacts> AskRecording(const std::string& path);

// What estimates count for a process on GPUs of a type, as the daemon knows it; as shipped, where
// no daemon answers.
AssumedContext AskAssumed(api::Client& client, const std::string& gpu_type,
                          const config::Settings& settings);
// Makes a context on an idle GPU of each type, one after the other, and fills in `cost` or
// `not_measured`. Gives each half a minute.
void MeasureContexts(const config::Settings& settings, const DriverFacts& driver,
                     std::vector<ContextFacts>& contexts);

// Of the folder, or the nearest above it that exists. is_daemon_user: what this process may write,
// carmad may too.
base::Result<DiskFacts> AskDisk(std::string path, bool is_daemon_user);
ClockFacts AskClock(const DaemonFacts& daemon);
// Of the daemon where there is one, for it is the one that makes groups; else of this process.
task::CgroupBase AskCgroups(const DaemonFacts& daemon);
DaemonFacts AskDaemon(api::Client& client);

}  // namespace carma::cli
