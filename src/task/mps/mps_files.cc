#include "task/mps/mps_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr char kLock[] = "control_lock";
constexpr char kControlLog[] = "control.log";
constexpr char kServerLog[] = "server.log";
constexpr off_t kMostRead = 64 << 10;
constexpr off_t kMostKept = 8 << 20;
// Files that a control daemon may leave behind, no matter how it exits.
constexpr std::array kLeft = {"control", "control_privileged", kLock, "log",
                              "nvidia-cuda-mps-control.pid"};

UniqueFd OpenFolder(int parent, const std::string& name) {
  return UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Only mps_dir itself belongs to carmad. The folders below it belong to users, who may put links
// there, so OpenFolder() does not follow links.
UniqueFd OpenUserFolder(const std::string& dir, const MpsServerId& id) {
  const UniqueFd base(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return base ? OpenFolder(base.get(), MpsOwnerFolder(id)) : UniqueFd();
}

struct OpenLog {
  UniqueFd fd;
  off_t size = 0;
};

OpenLog Open(const std::string& dir, const MpsServerId& id, const char* name, int mode) {
  const UniqueFd user = OpenUserFolder(dir, id);
  const UniqueFd logs = user ? OpenFolder(user.get(), MpsLogName(id.gpus)) : UniqueFd();
  if (!logs) return {};
  UniqueFd fd(::openat(logs.get(), name, mode | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat st {};
  // Other users' files are ignored, because a hard link may lead to a file that this user may not
  // read.
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != id.uid) return {};
  return {std::move(fd), st.st_size};
}

std::string ReadSince(const OpenLog& log, std::int64_t mark) {
  if (!log.fd) return "";
  // A log that has been truncated since the mark is read from the start.
  const off_t from = std::max<off_t>(mark > log.size ? 0 : mark, log.size - kMostRead);
  std::string text(static_cast<std::size_t>(log.size - from), '\0');
  const ssize_t got = ::pread(log.fd.get(), text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// A variable in the environment with which a process was started; empty if unknown. prefix: its
// name and "=".
std::string Variable(pid_t process, std::string_view prefix) {
  const std::string environment =
      base::ReadFile("/proc/" + std::to_string(process) + "/environ", 1 << 20).value_or("");
  for (const std::string_view each : base::Split(environment, '\0')) {
    if (each.starts_with(prefix)) return std::string(each.substr(prefix.size()));
  }
  return "";
}

}  // namespace

bool MpsSpeaksThree(pid_t daemon) {
  const std::string version = Variable(daemon, "CUDA_MPS_PROTOCOL_VERSION=");
  if (!version.empty()) return version == "3";
  const std::string line =
      base::ReadFile("/proc/" + std::to_string(daemon) + "/cmdline", 1 << 16).value_or("");
  std::string_view before;
  for (const std::string_view word : base::Split(line, '\0')) {
    if ((before == "-p" || before == "--protocol") && word == "3") return true;
    if (word == "-p3" || word == "--protocol=3") return true;
    before = word;
  }
  return false;
}

std::string MpsVisibleGpus(pid_t daemon) {
  return Variable(daemon, "CUDA_VISIBLE_DEVICES=");
}

bool MpsDividesSms(pid_t daemon) {
  const std::string line =
      base::ReadFile("/proc/" + std::to_string(daemon) + "/cmdline", 1 << 16).value_or("");
  const std::vector<std::string_view> words = base::Split(line, '\0');
  return std::ranges::any_of(
      words, [](std::string_view word) { return word == "-S" || word == "--static-partitioning"; });
}

std::optional<pid_t> MpsLockHolder(const std::string& pipe_dir) {
  const UniqueFd fd(::open((pipe_dir + "/" + kLock).c_str(),
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (!fd || ::fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  // l_pid is 0 for a process outside our pid namespace, and -1 for a lock that does not belong to a
  // process.
  if (lock.l_pid <= 1) return std::nullopt;
  return lock.l_pid;
}

MpsLogMark MpsLogs::Mark() const {
  return {Open(dir_, id_, kControlLog, O_RDONLY).size, Open(dir_, id_, kServerLog, O_RDONLY).size};
}

std::string MpsLogs::ControlSince(const MpsLogMark& mark) const {
  return ReadSince(Open(dir_, id_, kControlLog, O_RDONLY), mark.control);
}

std::string MpsLogs::ServerSince(const MpsLogMark& mark) const {
  return ReadSince(Open(dir_, id_, kServerLog, O_RDONLY), mark.server);
}

void MpsLogs::Bound() const {
  for (const char* name : {kControlLog, kServerLog}) {
    const OpenLog log = Open(dir_, id_, name, O_WRONLY);
    // The control daemon appends, so its next line becomes the first line of the emptied log.
    if (log.fd && log.size > kMostKept) (void)!::ftruncate(log.fd.get(), 0);
  }
}

void RemoveMpsPipeDir(const std::string& dir, const MpsServerId& id) {
  const std::string name = MpsFolderName(id.gpus);
  const UniqueFd user = OpenUserFolder(dir, id);
  const UniqueFd pipes = user ? OpenFolder(user.get(), name) : UniqueFd();
  if (!pipes) return;
  for (const char* left : kLeft) ::unlinkat(pipes.get(), left, 0);
  ::unlinkat(user.get(), name.c_str(), AT_REMOVEDIR);
}

}  // namespace carma::task
