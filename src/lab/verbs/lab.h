// The laboratory: simulations, traces, measurements of workloads, estimators beside measurements.
#pragma once

#include "cli/command.h"

namespace carma::cli {

// carma-lab: the verbs of `carma`, and those of the laboratory, which `carma` has it run.
Program LabProgram();

void AddDemoCommand(CLI::App& app, Context& context);
void AddTraceCommand(CLI::App& app, Context& context);
void AddSimulateCommand(CLI::App& app, Context& context);
void AddProfileCommand(CLI::App& app, Context& context);
void AddEvaluateCommand(CLI::App& estimate, Context& context);

}  // namespace carma::cli
