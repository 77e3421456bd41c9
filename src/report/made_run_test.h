// A made-up run for report tests: tasks of three weights arrive at random, are placed on the GPU
// with the fewest tasks, and slow each other down.
#pragma once

#include <cstdint>
#include <string>

#include "report/run.h"

namespace carma::report {

struct MadeRun {
  std::string label = "made";
  int tasks = 60;
  int gpus = 4;
  int most_per_gpu = 3;  // tasks at the same time
  double crash_share = 0.05;
  std::uint64_t seed = 1;
};

// The same options produce the same run.
RunRecord Make(const MadeRun& options);

}  // namespace carma::report
