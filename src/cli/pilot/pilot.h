// A pilot: carmad for the GPUs of one allocation, as long as the allocation lasts.
//
// It starts carmad as its child with books of its own, and tells it what a person could: a
// reservation keeps tasks away that would run past the end, a drain asks those that run to save and
// puts them back into the queue, where the next pilot of the same name finds them.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command.h"

namespace carma::cli {

// Exit codes of `carma pilot`, beside 1 and 2; the command's own goes first.
inline constexpr int kExitTasksFailed = 3;  // tasks have failed, nothing waits
inline constexpr int kExitTasksWait = 75;   // tasks wait for the next pilot (EX_TEMPFAIL)

struct PilotFlags {
  std::string name = "default";
  std::string books;  // folder of the folders of books; empty: $XDG_STATE_HOME/carma/pilot
  std::string gpus;   // in place of what the environment says
  std::string until;  // as task::ParseBegin has it
  std::optional<base::Duration> length;  // or so long
  std::optional<base::Duration> notice;
  bool until_empty = false;
  bool once = false;
  bool beside = false;  // beside root's carmad
};

// Serves until the end of the allocation, a signal, or (until_empty, or with a command in
// context.words) until nothing waits that could start. Sets context.exit_code.
void RunPilot(Context& context, const PilotFlags& flags);

}  // namespace carma::cli
