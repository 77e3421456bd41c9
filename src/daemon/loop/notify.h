// Reports the daemon's state to the service manager (sd_notify protocol). Without a service manager
// this does nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace carma::daemon {

// state: for example "READY=1", "STOPPING=1", "WATCHDOG=1" or "STATUS=…".
void NotifyServiceManager(const std::string& state);
// Half of the service manager's watchdog interval; empty if there is no watchdog.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace carma::daemon
