// The laboratory: simulations, traces, measurements of workloads, estimators beside measurements.
#pragma once

#include "cli/command.h"

namespace carma::cli {

// carma-lab: the verbs of `carma`, and those of the laboratory, which `carma` has it run.
Program LabProgram();

void AddDemoCommand(Syntax app, Context& context);
void AddTraceCommand(Syntax app, Context& context);
void AddSimulateCommand(Syntax app, Context& context);
void AddProfileCommand(Syntax app, Context& context);
void AddEvaluateCommand(Syntax estimate, Context& context);

}  // namespace carma::cli
