// MPS as values: whose control daemon serves which GPU, where it lives, what its answers mean and
// what its clients are told. Facts and rules: docs/server/collocation.md.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/task.h"

namespace carma::task {

// One control daemon with one server: of one user, for one GPU or for several. Users never share a
// server; with one for each GPU a fault reaches nobody on another, with one for all of them a task
// of several GPUs can be a client.
struct MpsServerId {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string gpus;  // UUIDs as in CUDA_VISIBLE_DEVICES: separated by commas
  friend auto operator<=>(const MpsServerId&, const MpsServerId&) = default;
};

// Last part of the server's folder, from the last letters of the (last) UUID, and how many GPUs if
// several: a Unix socket lies in it, whose path may have 107 bytes in all.
std::string MpsFolderName(const std::string& gpus);
// <dir>/<uid>/<folder name>, the pipe directory: NVIDIA's programs alone put files there.
std::string MpsPipeDir(const std::string& dir, const MpsServerId& id);
// <dir>/<uid>/<folder name>.log, beside it.
std::string MpsLogDir(const std::string& dir, const MpsServerId& id);
std::string MpsLogName(const std::string& gpus);  // its last part

// A memory limit holds for each process of a task where the server has one GPU: device 0 of every
// process then. CUDA drops a list for several devices as a whole, without a word, in a process that
// sees fewer of them, as launchers make it for their workers.
bool MpsLimitHolds(const std::string& gpus);
// Environment of a task that is to be a client there, with the limits of its sharing.
std::map<std::string, std::string> MpsClientEnvironment(const std::string& dir,
                                                        const MpsServerId& id,
                                                        const core::Sharing& sharing);
// Environment of a task that is no client: a place where no control daemon can ever listen. Without
// it CUDA would look in /tmp/nvidia-mps, which any user may own.
std::map<std::string, std::string> WithoutMpsEnvironment();

// ---- answers. The control program ends with exit code 0 whatever they say. ----

// Processes, one number a line, as get_server_list and get_client_list answer. Errors: kInvalid
// with the line that is none, kInvalid beyond 4096 lines.
base::Result<std::vector<pid_t>> ParseMpsPids(std::string_view text);

enum class MpsServerState {
  kActive,
  kStarting,
  kFault,    // a client's fault: it takes no new clients until those that were hit are gone
  kUnknown,  // it runs; a driver before branch 550 does not tell more
};
// Errors: kNotFound: there is no such server (any more); kInvalid: what else it says.
base::Result<MpsServerState> ParseMpsServerState(std::string_view text);
std::string_view MpsServerStateName(MpsServerState state);  // "active", "in a faulted state" …

// What terminate_client answers: nothing or 0 if it was done. Errors: kUnavailable with its words.
base::Result<base::Unit> ParseMpsTermination(std::string_view text);

// ---- logs. A line: "[2026-11-22 07:16:12.456 Control 30223] text" ----

// The text of the last line that has one; empty: none has.
std::string LastMpsLogText(std::string_view log);
// control.log tells that this server takes clients.
bool SaysMpsServerReady(std::string_view log, pid_t server);
// control.log tells that a server has ended. Both logs come the same way: all that it said before
// stands in server.log then.
bool SaysMpsServerEnded(std::string_view log);

}  // namespace carma::task
