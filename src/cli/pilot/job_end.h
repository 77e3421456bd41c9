// When a job of Slurm ends, where its environment does not say it (before Slurm 23.02).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace carma::cli {

// What `squeue -h -o %e` prints: local time; empty where it is none ("NONE", "N/A").
std::optional<base::Time> ParseJobEnd(std::string_view text);

// Asks squeue, for some seconds at most; empty: it is not there, or does not know.
std::optional<base::Time> AskJobEnd(const std::string& job);

}  // namespace carma::cli
