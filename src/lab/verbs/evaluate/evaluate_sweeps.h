// estimate evaluate --runs with sweeps of batches: predictions from relatives.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace carma::cli {

struct SweepsFlags {
  std::vector<std::string> files;
  bool by_benchmark = false;
  bool rows = false;
};

// Reads, estimates and prints; errors go to the context.
void EvaluateSweeps(Context& context, const SweepsFlags& flags);

}  // namespace carma::cli
