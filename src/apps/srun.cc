// srun, sbatch, scancel and scontrol for scripts that were written for Slurm and run inside a task.
// One program is installed under the four names; see task/shim/srun.h and task/shim/slurm_calls.h.
#include "task/shim/srun.h"

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/standard_streams.h"
#include "task/shim/slurm_calls.h"

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  std::string_view name = argv[0];
  name.remove_prefix(name.rfind('/') + 1);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::map<std::string, std::string> environment = carma::base::OwnEnvironment();
  if (name == "sbatch") return carma::task::RunSbatch(words, environment);
  if (name == "scancel") return carma::task::RunScancel(words, environment);
  if (name == "scontrol") return carma::task::RunScontrol(words, environment);
  auto plan = carma::task::PlanSrun(words, environment);
  if (!plan) {
    std::fprintf(stderr, "srun (CARMA's): %s\n", plan.error().message.c_str());
    return 2;
  }
  const auto held = carma::task::TakeGpus(*plan, environment);
  return carma::task::RunSrun(*plan, environment);
}
