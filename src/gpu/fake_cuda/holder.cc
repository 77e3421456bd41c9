// The program that the tests of cuda_context.cc run as the child.
#include "gpu/cuda_context.h"

int main() {
  return carma::gpu::HoldContext();
}
