// Queries the GPU driver on the daemon's behalf; see gpu/reader/reader.h.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/standard_streams.h"
#include "gpu/cuda_context.h"
#include "gpu/memory_limits.h"
#include "gpu/reader/reader.h"

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  if (argc > 2 && std::string_view(argv[1]) == carma::gpu::kMemoryLimitsWord)
    return carma::gpu::SetMemoryLimitsFromWords(std::vector<std::string>(argv + 2, argv + argc));
  if (argc != 2) {
    std::fputs("usage: carma-reader NVML_LIBRARY  (started by carmad)\n", stderr);
    return 2;
  }
  if (std::string_view(argv[1]) == "--version") {
    std::puts("carma-reader " CARMA_VERSION);
    return 0;
  }
  if (std::string_view(argv[1]) == carma::gpu::kHoldContextWord) return carma::gpu::HoldContext();
  // The reader must not outlive the daemon, even if the reader hangs in the driver.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto served = carma::gpu::ServeReader(carma::base::UniqueFd(0), argv[1]);
  if (served) return 0;
  std::fprintf(stderr, "carma-reader: %s\n", served.error().message.c_str());
  return 2;
}
