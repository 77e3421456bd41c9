// run and shell: a task in the caller's terminal.
#pragma once

#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {

struct RunFlags {
  SubmitFlags submit;
  std::optional<bool> terminal;  // the task gets one of its own; empty: if the caller has one
  bool quiet = false;            // nothing but the task's own words, and what goes wrong
};
// Submits the words of the context, waits for its place and gives it our terminal, or our streams.
// exit_code: the task's. The end of this program is the end of the task, as SIGHUP is.
void RunHere(Context& context, RunFlags flags);

}  // namespace carma::cli
