// carma-simmps: the control daemon of a simulated MPS and its command line, in place of NVIDIA's
// nvidia-cuda-mps-control. Its features and omissions: docs/inside/simgpu.md.
#pragma once

#include <string>
#include <string_view>

#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

// This variable contains words that make the daemon misbehave; so may the file `simmps` in the pipe
// directory. They are read again at every step: refuse-start, hang-start, hang, crash,
// server-fails, fault, full, tolerant, resident, vague-error, no-partitions, r535, r580, r590.
inline constexpr const char* kMpsBehaviourVariable = "CARMA_SIMMPS_BEHAVIOUR";
// Whether the word is set. With r535, r580 or r590 the daemon behaves like that branch of the
// driver, otherwise like 550. Unknown words have no effect.
bool MpsBehaves(const MpsFolders& folders, std::string_view word);

// Prints one line on stderr and returns the exit code for it, 1.
int FailWith(const std::string& text);

// `-d` starts the control daemon in the background; returns 0 once it answers, or 1 with a line on
// stderr if it cannot start or one is already running. `-f` runs it in this process until it ends.
// multi_user: its server accepts clients of all users (root only). partitions: the daemon divides
// the SMs.
struct MpsDaemonOptions {
  bool multi_user = false;
  bool partitions = false;
};
int StartMpsDaemon(const MpsFolders& folders, bool foreground, const MpsDaemonOptions& options);

// Without an option, sends every line of stdin as a command to the daemon of this pipe directory
// and prints its answers on stdout. Returns 1 if there is no daemon, if it disappears, or if a
// server ended by `quit` failed.
int RunMpsCommands(const MpsFolders& folders);
// Sends one command; in protocol 3 commands are arguments.
int RunMpsCommand(const MpsFolders& folders, const std::string& command);

// Last lines of the daemon's answers; kMpsFailed makes the calling program fail.
inline constexpr std::string_view kMpsAnswerEnd = ".";
inline constexpr std::string_view kMpsFailed = ".failed";

// In the control daemon's environment, "3" selects protocol 3 of branch 615, as in its manual.
inline constexpr const char* kMpsProtocolVariable = "CUDA_MPS_PROTOCOL_VERSION";

}  // namespace carma::simgpu
