// srun for scripts written for Slurm, inside a task on one server; src/task/shim/srun.h.
#include <cstdio>
#include <map>
#include <string>

#include "task/shim/slurm_calls.h"
#include "task/shim/srun.h"

int main(int argc, char** argv) {
  const std::map<std::string, std::string> environment = carma::task::OwnEnvironment();
  auto plan = carma::task::PlanSrun({argv + 1, argv + argc}, environment);
  if (!plan) {
    std::fprintf(stderr, "srun (of CARMA): %s\n", plan.error().message.c_str());
    return 2;
  }
  const auto held = carma::task::TakeGpus(*plan, environment);
  return carma::task::RunSrun(*plan, environment);
}
