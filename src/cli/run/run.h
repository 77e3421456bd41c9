// `carma run` and `carma shell`: a task in the caller's terminal.
#pragma once

#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {

struct RunFlags {
  SubmitFlags submit;
  std::optional<bool> terminal;  // give the task a terminal; empty: if the caller has one
  bool quiet = false;            // show only errors and the task's output
};
// Submits the words of the context, waits for the start, and connects this terminal or these
// streams to the task. exit_code becomes the task's. If this program ends, the task gets SIGHUP.
void RunHere(Context& context, RunFlags flags);

}  // namespace carma::cli
