// carma: the command for people.
#include "cli/command.h"

int main(int argc, char** argv) {
  carma::cli::Context context;
  context.version = CARMA_VERSION;
  return carma::cli::RunCarma(argc, argv, context);
}
