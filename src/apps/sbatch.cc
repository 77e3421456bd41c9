// sbatch for scripts written for Slurm, inside a task; src/task/shim/slurm_calls.h.
#include "task/shim/slurm_calls.h"

int main(int argc, char** argv) {
  return carma::task::RunSbatch({argv + 1, argv + argc}, carma::task::OwnEnvironment());
}
