// A moment as given on the command line.
#pragma once

#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cli/command.h"

namespace carma::cli {

// A date like "2026-03-01", "2026-03-01 14:05" or "2026-03-01T14:05:59" in local time, or a span
// before now: "2h", "7d", on the daemon's clock (which is asked for, because a simulated server's
// differs). Errors: kInvalid naming the option; those of the call.
base::Result<base::Time> ParseMoment(Context& context, const char* option, const std::string& text);
// The error of an --until before --since.
inline constexpr char kNotAfterSince[] = "--until: expected a time after --since";

}  // namespace carma::cli
