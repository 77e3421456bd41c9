// Tells the service manager how the daemon is (sd_notify protocol); does nothing without one.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace carma::daemon {

// "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=…".
void NotifyServiceManager(const std::string& state);
// Half the time within which the service manager wants to hear WATCHDOG=1; empty: it does not ask.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace carma::daemon
