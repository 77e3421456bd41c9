// What an estimator says of the workloads of a catalogue, before a simulation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/workloads.h"

namespace carma::cli {

struct WorkloadEstimates {
  std::map<std::string, std::int64_t>
      promised_mib;                   // by workload; without an entry: it cannot tell
  std::vector<std::string> troubles;  // "bert: no summary file is named" …
};

// Asks the estimator (a name of estimate/estimator.h) about the model summary that each workload
// names in `folder`, and takes what the daemon would promise for the answer: its bound at
// `coverage`, at most gpu_mib. File names are matched in any case. Errors: kIo: no such folder.
base::Result<WorkloadEstimates> EstimateWorkloads(const trace::Catalogue& catalogue,
                                                  const std::string& folder,
                                                  const std::string& estimator, double coverage,
                                                  std::int64_t gpu_mib);

}  // namespace carma::cli
