// srun for scripts written for Slurm, inside a task on one server; src/task/shim/srun.h.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "task/shim/srun.h"

int main(int argc, char** argv) {
  std::map<std::string, std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view pair = *each;
    if (const std::size_t equals = pair.find('='); equals != std::string_view::npos)
      environment.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  const auto plan = carma::task::PlanSrun({argv + 1, argv + argc}, environment);
  if (!plan) {
    std::fprintf(stderr, "srun (of CARMA): %s\n", plan.error().message.c_str());
    return 2;
  }
  if (plan->label) std::fputs("srun (of CARMA): lines are not labelled\n", stderr);
  return carma::task::RunSrun(*plan, environment);
}
