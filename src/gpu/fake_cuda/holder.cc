// The program that the tests of cuda_context.cc run for the child's part.
#include "gpu/cuda_context.h"

int main() {
  return carma::gpu::HoldContext();
}
