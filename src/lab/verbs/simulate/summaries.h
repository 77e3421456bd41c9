// The model summaries that the workloads of a catalogue name, before a simulation.
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

// Reads the file that each workload names in `folder`, in any case. What cannot be read stands
// among the troubles. Errors: kIo: no such folder.
base::Result<LoadedSummaries> LoadSummaries(const trace::Catalogue& catalogue,
                                            const std::string& folder);

}  // namespace carma::cli
