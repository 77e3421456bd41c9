// `carma run` and `carma shell`: a task in the caller's terminal.
#pragma once

#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {

struct RunFlags {
  SubmitFlags submit;
  std::optional<bool> terminal;  // give the task a terminal; if empty, only if the caller has one
  bool quiet = false;            // show only errors and the task's output
};
// Submits the context's words, waits for the task to start, and connects this terminal or these
// streams to it. exit_code becomes the task's. If this program exits, the task gets SIGHUP.
void RunHere(Context& context, RunFlags flags);

}  // namespace carma::cli
