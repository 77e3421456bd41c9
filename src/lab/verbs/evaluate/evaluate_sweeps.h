// estimate evaluate --runs with sweeps over batch sizes: predictions from related runs.
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
