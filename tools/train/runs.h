// Measured training runs as input for the networks, and how they are split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/gpumemnet_input.h"
#include "model/features.h"

namespace carma::train {

struct Run {
  std::string model;
  estimate::NetworkInput input;
  double measured_mib = 0;
  bool censored = false;  // needed more memory than the GPU has, so measured_mib has no meaning
};

// Runs in the files that are not used.
struct LeftOut {
  std::size_t other_family = 0;  // model::Classify returns a different family
  std::size_t incomplete = 0;    // the run failed for a reason other than memory
};

struct RunFiles {
  std::string layers;    // JSON lines of model::ForEachModel
  std::string measured;  // CSV: model, batch, measured_mib, censored; may have reason
};

// Errors: kInvalid, kIo with the file and line; a measured model without layers.
base::Result<std::vector<Run>> LoadRuns(const RunFiles& files, model::Family family,
                                        LeftOut& left_out);

// Assigns each run to one of `parts` parts by its model. A model is in one part only, and parts
// have about equally many models. The same seed gives the same parts.
std::vector<std::size_t> Parts(const std::vector<Run>& runs, std::size_t parts, std::uint64_t seed);

}  // namespace carma::train
