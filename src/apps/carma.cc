// carma: the command for users.
#include <string_view>

#include "base/file.h"
#include "base/standard_streams.h"
#include "build_text.h"
#include "cli/command.h"
#include "gpu/cuda_context.h"

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  // `carma doctor` runs this program as a child process that creates a CUDA context. HoldContext()
  // must be called before the process starts any thread.
  if (argc == 2 && std::string_view(argv[1]) == carma::gpu::kHoldContextWord)
    return carma::gpu::HoldContext();
  carma::cli::Context context;
  context.version = CARMA_VERSION;
  context.build = kBuildText;
  context.laboratory = carma::base::ExecutableDir() + "/carma-lab";
  return carma::cli::RunCarma(argc, argv, context, carma::cli::ServerProgram());
}
