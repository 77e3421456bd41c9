// carma-simmps: the control daemon of the simulated MPS and its command line, in place of NVIDIA's
// nvidia-cuda-mps-control. docs/inside/simgpu.md lists its features and omissions.
#pragma once

#include <string>
#include <string_view>

#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

// Environment variable with keywords that change the daemon's behaviour. The file `simmps` in the
// pipe directory can contain more. Both are reread at every step. Keywords: refuse-start,
// hang-start, hang, crash, server-fails, fault, full, tolerant, resident, vague-error,
// no-partitions, r535, r580, r590.
inline constexpr const char* kMpsBehaviourVariable = "CARMA_SIMMPS_BEHAVIOUR";
// True if the keyword is set. With r535, r580 or r590, the daemon behaves like that driver branch;
// otherwise, like branch 550. Unknown keywords have no effect.
bool MpsBehaves(const MpsFolders& folders, std::string_view word);

struct MpsDaemonOptions {
  bool multi_user = false;  // the MPS server accepts clients of all users (root only)
  bool partitions = false;  // the daemon partitions the SMs
};
// Implements the options `-d` and `-f`. With `-d`, starts the control daemon in the background and
// returns 0 once the daemon responds. If the daemon cannot start or is already running, prints a
// line on stderr and returns 1. With `-f` (`foreground`), runs the daemon in this process until it
// exits.
int StartMpsDaemon(const MpsFolders& folders, bool foreground, const MpsDaemonOptions& options);

// Implements a call without options: sends each line of stdin to this pipe directory's daemon as a
// command, and prints the replies on stdout. Returns 1 if there is no daemon, if the daemon
// disappears, or if a server stopped by `quit` failed.
int RunMpsCommands(const MpsFolders& folders);
// Sends a single command given as program arguments, as in protocol 3.
int RunMpsCommand(const MpsFolders& folders, const std::string& command);

// Each reply from the daemon ends with one of these lines. After kMpsFailed, the calling program
// exits with an error.
inline constexpr std::string_view kMpsAnswerEnd = ".";
inline constexpr std::string_view kMpsFailed = ".failed";

// If this variable is "3" in the control daemon's environment, the daemon uses protocol 3, as in
// the manual of branch 615.
inline constexpr const char* kMpsProtocolVariable = "CUDA_MPS_PROTOCOL_VERSION";

}  // namespace carma::simgpu
