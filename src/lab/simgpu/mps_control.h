// carma-simmps: the control daemon of a simulated MPS and its command line, in place of NVIDIA's
// nvidia-cuda-mps-control. Its features and omissions: docs/inside/simgpu.md.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

// Words that make it misbehave, from CARMA_SIMMPS_BEHAVIOUR and from the file `simmps` in the pipe
// directory, read again at every step: refuse-start, hang-start, hang, crash, server-fails, fault,
// full, tolerant, resident, vague-error, no-partitions, r535, r580, r590.
inline constexpr const char* kMpsBehaviourVariable = "CARMA_SIMMPS_BEHAVIOUR";
// Whether the word is set. r535, r580, r590: behaves like this branch of the driver, else like 550.
// Unknown words have no effect.
bool MpsBehaves(const MpsFolders& folders, std::string_view word);

// Prints one line on stderr and returns the exit code for it, 1.
int FailWith(const std::string& text);

// `-d`: the control daemon in the background; returns 0 once it answers, 1 with a line on stderr if
// it cannot start or one is there. `-f`: in this process, to its end. multi_user: its server takes
// clients of all users; for root only. partitions: it divides the SMs.
struct MpsDaemonOptions {
  bool multi_user = false;
  bool partitions = false;
};
int StartMpsDaemon(const MpsFolders& folders, bool foreground, const MpsDaemonOptions& options);

// No option: every line of stdin is a command for the daemon of this pipe directory, its answers go
// to stdout, those about failures too. 1 if there is no daemon, if it goes away, or if one of the
// servers that a `quit` has ended did not end well.
int RunMpsCommands(const MpsFolders& folders);
// One command; by protocol 3 they come as arguments.
int RunMpsCommand(const MpsFolders& folders, const std::string& command);

// The last line of the daemon's answer; the second makes the asker fail.
inline constexpr std::string_view kMpsAnswerEnd = ".";
inline constexpr std::string_view kMpsFailed = ".failed";

// Of the control daemon: "3" is protocol 3 of branch 615, as its manual has it.
inline constexpr const char* kMpsProtocolVariable = "CUDA_MPS_PROTOCOL_VERSION";

}  // namespace carma::simgpu
