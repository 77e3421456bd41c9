// The laboratory verbs: simulations, traces, workload profiles, estimator evaluation.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace carma::cli {

// The program carma-lab, with all verbs of `carma` plus the laboratory verbs. `carma` starts it for
// laboratory verbs.
Program LabProgram();

void AddDemoCommand(Syntax app, Context& context);
void AddTraceCommand(Syntax app, Context& context);
void AddSimulateCommand(Syntax app, Context& context);
void AddProfileCommand(Syntax app, Context& context);
void AddEvaluateCommand(Syntax estimate, Context& context);

// simulate validate: compares the simulator with published and measured figures.
void AddSimulateValidate(Syntax simulate, Context& context);
// The keywords of a simulated policy, including configuration keys without their section.
std::vector<std::string> PolicyWordNames();

}  // namespace carma::cli
