// carma-lab: implements `carma simulate`, `trace`, `profile` and `estimate evaluate`. carma starts
// it for these commands.
#include <string_view>
#include <vector>

#include "base/standard_streams.h"
#include "build_text.h"
#include "gpu/cuda_context.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/profile/keeper.h"

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  // `carma profile` starts this program as a child to measure the memory of a CUDA context.
  if (argc == 2 && std::string_view(argv[1]) == carma::gpu::kHoldContextWord)
    return carma::gpu::HoldContext();
  // `carma profile` also starts this program as a keeper (lab/verbs/profile/keeper.h).
  if (argc >= 2 && std::string_view(argv[1]) == carma::cli::kKeepWord)
    return carma::cli::RunKeeper({argv + 2, argv + argc});
  carma::cli::Context context;
  context.version = CARMA_VERSION;
  context.build = kBuildText;
  return carma::cli::RunCarma(argc, argv, context, carma::cli::LabProgram());
}
