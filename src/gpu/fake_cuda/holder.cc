// The program that runs as the child in the tests of cuda_context.cc.
#include "gpu/cuda_context.h"

int main() {
  return carma::gpu::HoldContext();
}
