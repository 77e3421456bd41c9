// The protocol between the programs of the simulated MPS: one line per message over Unix sockets.
// The names of files, commands and errors are NVIDIA's; everything else is CARMA's own.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/line_socket.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "lab/simgpu/framework_text.h"

namespace carma::simgpu {

inline constexpr std::size_t kMaxMpsLine = 4096;

// Folders of a control daemon and its clients, from CUDA_MPS_PIPE_DIRECTORY and
// CUDA_MPS_LOG_DIRECTORY or NVIDIA's defaults. The file names in them are NVIDIA's.
struct MpsFolders {
  std::string pipes;
  std::string logs;
  std::string Control() const { return pipes + "/control"; }                // for clients
  std::string Privileged() const { return pipes + "/control_privileged"; }  // for commands
  std::string Lock() const { return pipes + "/control_lock"; }
  // NVIDIA's daemon logs through this FIFO. If the path is not a FIFO, nothing is logged.
  std::string LogFifo() const { return pipes + "/log"; }
  std::string PidFile() const { return pipes + "/nvidia-cuda-mps-control.pid"; }
  // Keywords that make the daemon misbehave (mps_control.h).
  std::string BehaviourFile() const { return pipes + "/simmps"; }
};
MpsFolders MpsFoldersFromEnvironment();

// CUDA errors that clients of an MPS server get.
enum class MpsError {
  kNone = 0,
  kForeignAccess = 700,  // all clients get this error after an illegal access by one of them
  kLaunchFailed = 719,   // often caused by the program's own bug, not by MPS
  kConnectionFailed = 805,
  kRpcFailure = 806,
  kServerNotReady = 807,
  kMaxClients = 808,
  kClientTerminated = 810,
  // The client has no SM partition even though the daemon partitions the SMs.
  kInvalidResourceConfiguration = 915,
};
// error: not kNone.
CudaError CudaErrorOf(MpsError error);
// The reply to a client that is refused or has failed: "error 807".
std::string FormatMpsError(MpsError error);
// Returns kConnectionFailed if the line is not an error message; the peer is then not an MPS
// server.
MpsError ParseMpsError(std::string_view line);

// Memory limits by the server's device numbers: "0=6144M,1=2G". Returns kInvalid for other text.
using MpsMemoryLimits = std::map<int, std::int64_t>;  // MiB
Result<MpsMemoryLimits> ParseMpsMemoryLimits(std::string_view text);
std::string FormatMpsMemoryLimits(const MpsMemoryLimits& limits);
// Parses a percentage above 0 and at most 100. Returns kInvalid for any other text.
Result<double> ParseMpsPercentage(std::string_view text);

// Settings that the daemon sends to a new client along with the path of the server's socket.
struct MpsWelcome {
  double thread_percentage = 100;
  MpsMemoryLimits memory_limits;
  // CUDA_VISIBLE_DEVICES of the control daemon; empty if not set.
  std::optional<std::string> visible_devices;
  friend bool operator==(const MpsWelcome&, const MpsWelcome&) = default;
};
// The daemon replies to a client with kMpsServer and the path of the server's socket, then with a
// welcome on the next line. The server replies with kMpsJoined.
inline constexpr std::string_view kMpsServer = "server ";
inline constexpr std::string_view kMpsJoined = "joined";
std::string FormatMpsWelcome(const MpsWelcome& welcome);
// Returns kInvalid if the line is not a welcome message.
Result<MpsWelcome> ParseMpsWelcome(std::string_view line);

// How long a program waits for a reply that may never come.
inline constexpr auto kForEver = std::chrono::hours(24 * 365);

// The process at the other end of a socket; empty if it is unknown.
std::optional<ucred> PeerOf(int socket);
// Returns the errors of connect(2), or kInvalid if the path is too long for a socket.
Result<base::LineSocket> ConnectTo(const std::string& path);
// Creates a listening socket at this path, which must not exist yet. Returns the errors of bind(2),
// or kInvalid if the path is too long.
Result<base::UniqueFd> ListenAt(const std::string& path);

}  // namespace carma::simgpu
