// The verbs of the laboratory: simulations, traces, workload profiles, estimator evaluation.
#pragma once

#include "cli/command.h"

namespace carma::cli {

// The program carma-lab: the verbs of `carma` and those of the laboratory. `carma` starts this
// program for the laboratory's verbs.
Program LabProgram();

void AddDemoCommand(Syntax app, Context& context);
void AddTraceCommand(Syntax app, Context& context);
void AddSimulateCommand(Syntax app, Context& context);
void AddProfileCommand(Syntax app, Context& context);
void AddEvaluateCommand(Syntax estimate, Context& context);

// simulate validate: compares the simulator with published and measured figures.
void AddSimulateValidate(Syntax simulate, Context& context);

}  // namespace carma::cli
