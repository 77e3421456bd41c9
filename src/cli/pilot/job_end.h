// When a job of Slurm ends, if its environment does not show it (before Slurm 23.02).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace carma::cli {

// Parses what `squeue -h -o %e` prints: local time; empty for "NONE", "N/A".
std::optional<base::Time> ParseJobEnd(std::string_view text);

// Asks squeue, for some seconds at most; empty: no squeue, or unknown.
std::optional<base::Time> AskJobEnd(const std::string& job);

}  // namespace carma::cli
