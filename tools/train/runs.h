// Measured training runs as the networks see them, and how they are split.
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
  bool censored = false;  // needed more than the card had; measured_mib says nothing then
};

// What was in the files and is not among the runs.
struct LeftOut {
  std::size_t other_family = 0;  // model::Classify says another one
  std::size_t incomplete = 0;    // the run broke off for other reasons than memory
};

struct RunFiles {
  std::string layers;    // JSON lines of model::ForEachModel
  std::string measured;  // CSV: model, batch, measured_mib, censored; reason may be there
};

// Errors: kInvalid, kIo with the file and line; a measured model without layers.
base::Result<std::vector<Run>> LoadRuns(const RunFiles& files, model::Family family,
                                        LeftOut& left_out);

// Which part of `parts` each run belongs to, by its model: a model is in one part only, and parts
// hold about equally many models. Equal seeds give equal parts.
std::vector<std::size_t> Parts(const std::vector<Run>& runs, std::size_t parts, std::uint64_t seed);

}  // namespace carma::train
