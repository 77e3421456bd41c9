// Loads the model summaries of a catalogue's workloads before a simulation.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/sim/simulate.h"
#include "lab/trace/workloads.h"

namespace carma::cli {

struct LoadedSummaries {
  sim::Summaries by_workload;
  std::vector<std::string> troubles;  // "bert: no summary file is named" …
};

// Reads each workload's file in `folder`, ignoring case. Unreadable ones are listed in `troubles`.
// Errors: kIo: no such folder.
base::Result<LoadedSummaries> LoadSummaries(const trace::Catalogue& catalogue,
                                            const std::string& folder);

}  // namespace carma::cli
