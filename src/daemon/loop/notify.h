// Reports the daemon's state to the service manager (sd_notify protocol); does nothing without one.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace carma::daemon {

// state: "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=…".
void NotifyServiceManager(const std::string& state);
// Half of the service manager's watchdog interval; empty: no watchdog.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace carma::daemon
