// Data types and functions for MPS: control daemons by user and GPU, their folders and replies, and
// the environment of their clients. docs/server/collocation.md has the facts and rules.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/sharing.h"

namespace carma::task {

// Which MPS servers carmad runs, as set by collocation.mps_servers.
enum class MpsScope {
  kUser,    // one per user, for all whole GPUs
  kGpu,     // one per user and GPU
  kShared,  // one for all users and all whole GPUs
};

// One control daemon with one server, for one or more GPUs. With one server per GPU, a fault does
// not affect other GPUs. With one server for all GPUs, a task on several GPUs can be a client. A
// server belongs to one user, except for the shared server: it belongs to root, runs in multi-user
// mode, and does not isolate users' processes from each other.
struct MpsServerId {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string gpus;  // UUIDs separated by commas, as in CUDA_VISIBLE_DEVICES
  bool shared = false;
  friend auto operator<=>(const MpsServerId&, const MpsServerId&) = default;
};

// Returns the id of the shared server. MpsServerName() and MpsServerNamed() convert between an id
// and the text in core::Sharing::server.
MpsServerId SharedMpsServer(std::string gpus);
std::string MpsServerName(const MpsServerId& id);
MpsServerId MpsServerNamed(std::uint32_t uid, std::uint32_t gid, const std::string& name);

// The last component of a server folder's path: the end of the last GPU's UUID, followed by the
// number of GPUs if there are several. Kept short because the folder contains a Unix socket, whose
// path is limited to 107 bytes.
std::string MpsFolderName(const std::string& gpus);
// First component of the path: the UID, or kSharedMpsFolder for the shared server.
inline constexpr char kSharedMpsFolder[] = "shared";
std::string MpsOwnerFolder(const MpsServerId& id);
// <dir>/<owner>/<folder name>, the pipe directory: only NVIDIA's programs put files there.
std::string MpsPipeDir(const std::string& dir, const MpsServerId& id);
// <dir>/<owner>/<folder name>.log, next to the pipe directory.
std::string MpsLogDir(const std::string& dir, const MpsServerId& id);
std::string MpsLogName(const std::string& gpus);  // last component of the log directory's path

// Returns true if MPS can enforce a memory limit per process. This requires a server with one GPU,
// which is then device 0 in every process. With several GPUs, a process (such as a launcher's
// worker) may see only some of them. CUDA then silently ignores the limits, because there are more
// limits than devices.
bool MpsLimitHolds(const std::string& gpus);
// Environment of a client task, including its limits and its priority among the server's clients:
// normal for a latency-sensitive task, otherwise below normal.
std::map<std::string, std::string> MpsClientEnvironment(const std::string& dir,
                                                        const MpsServerId& id,
                                                        const core::Sharing& sharing, bool serves);
// Environment of a task that is not a client. No control daemon can listen in its pipe directory.
// By default, CUDA would look in /tmp/nvidia-mps, which any user may own.
std::map<std::string, std::string> WithoutMpsEnvironment();
// Removes the MPS variables that a task inherits if it was submitted by a client of a server below
// `dir`. Keeps the variables of a user's own server.
void EraseInheritedMps(const std::string& dir, std::map<std::string, std::string>& environment);

// ---- replies; the control program exits with 0 for every reply ----

// Parses PIDs, one per line, as in the replies to get_server_list and get_client_list. With
// protocol 3, the PID is the first value of each CSV line of `client list`. Returns kInvalid if a
// line is malformed (the message quotes it) or if there are more than 4096 lines.
Result<std::vector<pid_t>> ParseMpsPids(std::string_view text);

enum class MpsServerState {
  kActive,
  kStarting,
  kFault,    // after a client's fault: no new clients join until the affected clients are gone
  kUnknown,  // running; drivers before branch 550 report nothing more
};
// Returns kNotFound if the server does not exist or has exited, kInvalid for an unknown reply.
Result<MpsServerState> ParseMpsServerState(std::string_view text);

// One server in a protocol 3 reply to `server list`, where servers have names.
struct MpsServerRow {
  std::string name;
  std::uint32_t uid = 0;
  pid_t pid = 0;
  MpsServerState state = MpsServerState::kStarting;
};
// Returns kInvalid if a line is malformed; the message quotes it.
Result<std::vector<MpsServerRow>> ParseMpsServerRows(std::string_view text);

// The SMs of a GPU under a server with static SM partitions (CUDA 13.1 and newer), as lspart
// reports them. Each client of such a server needs its own partition, whose SMs no other client
// uses. Partitions consist of chunks of SMs; SMs that do not fill a chunk may go to the last
// partition.
struct MpsPartition {
  std::string id;  // without the GPU's UUID
  int sms = 0;
  bool used = false;  // used by a client, so it cannot be removed
};
struct MpsPartitions {
  int free_chunks = 0;
  int used_chunks = 0;
  std::vector<MpsPartition> partitions;
};
// gpu: the GPU's UUID; the reply contains only a prefix of it. Returns kInvalid, quoting the line,
// if a line is malformed. Returns kUnavailable, quoting the reply, if no line is for this GPU.
Result<MpsPartitions> ParseMpsPartitions(std::string_view text, const std::string& gpu);
// Extracts a new partition's id from the reply to `sm_partition add`. If it contains none, returns
// kUnavailable and quotes the reply.
Result<std::string> ParseMpsPartitionAdded(std::string_view text, const std::string& gpu);
// Converts a share of the SMs (0..1) to a number of chunks. Rounds down, so that shares that add up
// to at most 1 fit together, but returns at least 1.
int MpsChunks(double share, const MpsPartitions& of);

// Checks the reply to terminate_client, which is empty or 0 on success. Otherwise returns
// kUnavailable with its text.
Result<Unit> ParseMpsTermination(std::string_view text);

// ---- logs; a line is "[2026-11-22 07:16:12.456 Control 30223] text" ----

// The text of the last non-empty line; empty if there is none.
std::string LastMpsLogText(std::string_view log);
// Returns true if control.log reports that this server accepts clients.
bool SaysMpsServerReady(std::string_view log, pid_t server);
// Returns true if control.log reports that a server has exited. Both logs are written in order, so
// server.log is complete by then.
bool SaysMpsServerEnded(std::string_view log);

}  // namespace carma::task
