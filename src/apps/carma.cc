// carma: the command for people.
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/profile/keeper.h"
#include "gpu/cuda_context.h"

int main(int argc, char** argv) {
  // A child of `carma doctor`; before anything else, since the CUDA driver wants a fresh process.
  if (argc == 2 && std::string_view(argv[1]) == carma::gpu::kHoldContextWord) {
    return carma::gpu::HoldContext();
  }
  // A child of `carma profile`.
  if (argc >= 2 && std::string_view(argv[1]) == carma::cli::kKeepWord) {
    return carma::cli::RunKeeper({argv + 2, argv + argc});
  }
  carma::cli::Context context;
  context.version = CARMA_VERSION;
  return carma::cli::RunCarma(argc, argv, context);
}
