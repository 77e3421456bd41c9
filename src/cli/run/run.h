// run and shell: a task in the caller's terminal.
#pragma once

#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {

struct RunFlags {
  SubmitFlags submit;
  std::optional<bool> terminal;  // give the task one; empty: if the caller has one
  bool quiet = false;            // only the task's output, and errors
};
// Submits the words of the context, waits for the start, and connects this terminal or its streams.
// exit_code becomes the task's. If this program ends, the task gets SIGHUP.
void RunHere(Context& context, RunFlags flags);

}  // namespace carma::cli
