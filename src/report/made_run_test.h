// Helpers for report tests, among them a made-up run: tasks of three weights arrive at random, are
// placed on the GPU with the fewest tasks, and slow each other down.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/try.h"
#include "report/report.h"

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

// The table of a single run.
inline std::string Table(const Metrics& metrics) {
  return Compare({&metrics, 1});
}
inline Result<Metrics> FromJsonText(const std::string& text) {
  return FromJson(CARMA_TRY(base::ParseJson(text)));
}

}  // namespace carma::report
