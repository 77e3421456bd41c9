// Sub-verbs of `carma simulate`.
#pragma once

#include "cli/command.h"

namespace carma::cli {

// simulate validate: compares the simulator with published and measured figures.
void AddSimulateValidate(Syntax simulate, Context& context);

}  // namespace carma::cli
