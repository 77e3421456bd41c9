// Sub-verbs of `carma simulate`.
#pragma once

#include "cli/command.h"

namespace carma::cli {

// simulate validate: the simulator beside published and measured figures.
void AddSimulateValidate(Syntax simulate, Context& context);

}  // namespace carma::cli
