// The events that report what became of an attempt.
#pragma once

#include <string>

#include "base/result.h"
#include "task/shim/launcher.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

ShimEvent EventOf(const KnownAttempt& attempt, ShimEventKind kind);
// The event for an attempt that ended with a report.
ShimEvent EventOf(const KnownAttempt& attempt, const ShimReport& report);
ShimEvent FailureOf(const KnownAttempt& attempt, std::string text, bool retryable);
// The event for an attempt that failed before a shim had claimed it.
ShimEvent FailureOf(const KnownAttempt& attempt, const base::Error& error);
// The event for an attempt that was given up because it did not start. The task waits, and neither
// it nor the machine is blamed.
ShimEvent NoStartOf(const KnownAttempt& attempt);

}  // namespace carma::task
