// A pilot runs carmad on the GPUs of one allocation until the allocation ends. carmad is its child
// process and has its own database. A reservation keeps out tasks that would run past the end. A
// drain asks running tasks to checkpoint and requeues them for the next pilot with the same name.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command.h"

namespace carma::cli {

// Additional exit codes of `carma pilot`. The command's own code takes precedence.
inline constexpr int kExitTasksFailed = 3;  // tasks have failed, and no task is waiting
inline constexpr int kExitTasksWait = 75;   // tasks are waiting for the next pilot (EX_TEMPFAIL)

struct PilotFlags {
  std::string name = "default";
  std::string books;  // parent folder of all pilots' folders; empty: $XDG_STATE_HOME/carma/pilot
  std::string gpus;   // instead of the GPUs in the environment
  std::string until;  // when the pilot ends; for task::ParseBegin
  std::optional<base::Duration> length;  // or how long the pilot runs
  std::optional<base::Duration> notice;
  bool until_empty = false;
  bool once = false;
  bool beside = false;  // run even though root's carmad is running
};

// Serves until the allocation ends or a signal arrives. With until_empty, or with a command in
// context.words, also ends once no waiting task can start. Sets context.exit_code.
void RunPilot(Context& context, const PilotFlags& flags);

}  // namespace carma::cli
