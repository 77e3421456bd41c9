#include "lab/simgpu/mps_wire.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::simgpu {
namespace {

constexpr int kBacklog = 64;
constexpr int kMaxDevices = 64;
constexpr std::string_view kWelcome = "welcome ";
constexpr std::string_view kVisible = " visible=";

constexpr std::pair<MpsError, CudaError> kErrors[] = {
    {MpsError::kForeignAccess, kIllegalAddress},
    {MpsError::kLaunchFailed, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {MpsError::kConnectionFailed,
     {"CUDA_ERROR_MPS_CONNECTION_FAILED",
      "MPS client failed to connect to the MPS control daemon or the MPS server"}},
    {MpsError::kRpcFailure,
     {"CUDA_ERROR_MPS_RPC_FAILURE",
      "the remote procedural call between the MPS server and the MPS client failed"}},
    {MpsError::kServerNotReady,
     {"CUDA_ERROR_MPS_SERVER_NOT_READY",
      "MPS server is not ready to accept new MPS client requests"}},
    {MpsError::kMaxClients,
     {"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
      "the hardware resources required to create MPS client have been exhausted"}},
    {MpsError::kClientTerminated,
     {"CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS client has been terminated by the server"}},
    {MpsError::kInvalidResourceConfiguration,
     {"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration"}},
};

struct Endpoint {
  sockaddr_un address{};
  base::UniqueFd fd;
};

// A new socket for this path, neither bound nor connected.
Result<Endpoint> MakeEndpoint(const std::string& path) {
  Endpoint made;
  made.address.sun_family = AF_UNIX;
  if (path.size() >= sizeof made.address.sun_path)
    return Invalid(base::Printable(path) + ": too long for a Unix socket");
  std::memcpy(made.address.sun_path, path.data(), path.size());
  made.fd.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.fd) return FailErrno(errno, "socket");
  return made;
}

}  // namespace

MpsFolders MpsFoldersFromEnvironment() {
  const auto folder = [](const char* variable, const char* fallback) {
    const std::string value = base::GetEnv(variable);
    // Paths are made absolute, because the daemon changes its working directory.
    return std::filesystem::absolute(value.empty() ? fallback : value).string();
  };
  return {folder("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"),
          folder("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps")};
}

CudaError CudaErrorOf(MpsError error) {
  return std::ranges::find(kErrors, error, &std::pair<MpsError, CudaError>::first)->second;
}

std::string FormatMpsError(MpsError error) {
  return fmt::format("error {}", static_cast<int>(error));
}

MpsError ParseMpsError(std::string_view line) {
  for (const auto& [error, cuda] : kErrors) {
    if (line == FormatMpsError(error)) return error;
  }
  return MpsError::kConnectionFailed;
}

Result<MpsMemoryLimits> ParseMpsMemoryLimits(std::string_view text) {
  MpsMemoryLimits limits;
  if (base::Trim(text).empty()) return limits;
  for (const std::string_view piece : base::Split(text, ',')) {
    const std::size_t equals = piece.find('=');
    const auto device = base::ParseInt(base::Trim(piece.substr(0, equals)));
    if (equals == piece.npos || !device || *device < 0 || *device >= kMaxDevices)
      return Invalid("'" + base::Printable(piece, 40) + "': expected DEVICE=SIZE, as in 0=6144M");
    const std::int64_t mib = CARMA_TRY(base::ParseMemoryMib(piece.substr(equals + 1)));
    limits[static_cast<int>(*device)] = mib;
  }
  return limits;
}

std::string FormatMpsMemoryLimits(const MpsMemoryLimits& limits) {
  std::string text;
  for (const auto& [device, mib] : limits)
    text += fmt::format("{}{}={}M", text.empty() ? "" : ",", device, mib);
  return text;
}

Result<double> ParseMpsPercentage(std::string_view text) {
  const auto value = base::ParseDouble(base::Trim(text));
  if (value && *value > 0 && *value <= 100) return *value;
  return Invalid("'{}': expected a percentage above 0 and at most 100", base::Printable(text, 40));
}

std::string FormatMpsWelcome(const MpsWelcome& welcome) {
  std::string line = fmt::format("{}threads={} limits={}", kWelcome, welcome.thread_percentage,
                                 FormatMpsMemoryLimits(welcome.memory_limits));
  // This field is last, because its value may contain any character except a line end.
  if (welcome.visible_devices) line += std::string(kVisible) + *welcome.visible_devices;
  return line;
}

Result<MpsWelcome> ParseMpsWelcome(std::string_view line) {
  const auto wrong = Invalid("unexpected welcome message: '" + base::Printable(line) + "'");
  if (!line.starts_with(kWelcome)) return wrong;
  line.remove_prefix(kWelcome.size());
  MpsWelcome welcome;
  if (const std::size_t at = line.find(kVisible); at != line.npos) {
    welcome.visible_devices = line.substr(at + kVisible.size());
    line = line.substr(0, at);
  }
  const auto words = base::SplitWords(line);
  if (words.size() != 2 || !words[0].starts_with("threads=") || !words[1].starts_with("limits="))
    return wrong;
  welcome.thread_percentage = CARMA_TRY(ParseMpsPercentage(words[0].substr(8)));
  welcome.memory_limits = CARMA_TRY(ParseMpsMemoryLimits(words[1].substr(7)));
  return welcome;
}

std::optional<ucred> PeerOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

Result<base::LineSocket> ConnectTo(const std::string& path) {
  auto [address, fd] = CARMA_TRY(MakeEndpoint(path));
  int done = 0;
  do {
    done = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (done != 0 && errno == EINTR);
  if (done != 0) return FailErrno(errno, "connecting to " + path);
  return base::LineSocket(std::move(fd));
}

Result<base::UniqueFd> ListenAt(const std::string& path) {
  auto [address, fd] = CARMA_TRY(MakeEndpoint(path));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return FailErrno(errno, "listening at " + path);
  }
  return std::move(fd);
}

}  // namespace carma::simgpu
