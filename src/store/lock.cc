#include "store/lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::store {
namespace {

// The database contains the environments of all users. Any user who can write to its folder could
// replace it.
Result<Unit> CheckFolder(const std::string& state_dir) {
  struct stat info {};
  if (::stat(state_dir.c_str(), &info) != 0) return FailErrno(errno, "state folder " + state_dir);
  if (!S_ISDIR(info.st_mode)) return Invalid("state folder " + state_dir + ": expected a folder");
  if (info.st_uid != ::geteuid()) {
    return Denied("state folder " + state_dir + " belongs to uid " + std::to_string(info.st_uid) +
                  ", expected uid " + std::to_string(::geteuid()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Denied(
        "state folder " + state_dir +
        " is writable by other users, but only its owner may have write access (run: chmod go-w " +
        state_dir + ")");
  }
  return Unit{};
}

struct LockHolder {
  std::optional<pid_t> pid;  // empty if it has not been written yet or could not be written
  std::string socket;        // empty if unknown
};

LockHolder ReadHolder(int fd) {
  char buffer[256];  // longer than any pid with the path of a socket
  const ssize_t n = ::pread(fd, buffer, sizeof buffer, 0);
  const auto lines =
      base::Split(std::string_view(buffer, n > 0 ? static_cast<std::size_t>(n) : 0), '\n');
  LockHolder holder;
  if (const auto pid = base::ParseInt(lines[0])) holder.pid = static_cast<pid_t>(*pid);
  if (lines.size() > 1) holder.socket = lines[1];
  return holder;
}

// How long to wait for a lock whose holder has exited. A daemon killed while starting a shim leaves
// a child process that holds the lock until it calls exec.
constexpr std::chrono::seconds kPatience{5};
constexpr int kAskAgainMs = 10;

Result<Unit> Lock(int fd, const std::string& state_dir, const std::string& socket) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno(errno, "flock " + state_dir + "/lock");
    const LockHolder holder = ReadHolder(fd);
    const std::optional<base::ProcessStat> stat =
        holder.pid ? base::ReadProcessStat(*holder.pid) : std::nullopt;
    const bool dying = holder.pid && (!stat || stat->dead());
    if (!dying || std::chrono::steady_clock::now() >= give_up) {
      const bool elsewhere = !holder.socket.empty() && holder.socket != socket;
      return Conflict("state folder " + state_dir + " is in use by another carmad (pid " +
                      (holder.pid ? std::to_string(*holder.pid) : "unknown") + ")" +
                      (elsewhere ? "; to use it: export CARMA_SOCKET=" + holder.socket : ""));
    }
    ::poll(nullptr, 0, kAskAgainMs);
  }
  return Unit{};
}

}  // namespace

Result<StateLock> StateLock::Take(const std::string& state_dir, const std::string& socket) {
  if (Result<Unit> made = base::MakeDirs(state_dir, 0700); !made)
    return base::Wrap(made.error(), "creating the state folder");
  CARMA_TRY(CheckFolder(state_dir));
  const std::string path = state_dir + "/lock";
  base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno(errno, "open " + path);
  CARMA_TRY(Lock(fd.get(), state_dir, socket));
  // The text only helps to identify the holder. If the disk is too full for the text, the lock
  // works without it.
  const std::string text = std::to_string(::getpid()) + "\n" + socket + "\n";
  if (::ftruncate(fd.get(), 0) == 0) [[maybe_unused]]
    const ssize_t n = ::pwrite(fd.get(), text.data(), text.size(), 0);
  return StateLock(std::move(fd));
}

FilePlace::FilePlace(std::string path, std::string_view remedy) : remedy_(remedy) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return;
  path_ = std::move(path);
  device_ = st.st_dev;
  inode_ = st.st_ino;
}

Result<Unit> FilePlace::Check() const {
  struct stat st {};
  if (path_.empty()) return Unit{};
  const bool there = ::stat(path_.c_str(), &st) == 0;
  if (there && st.st_dev == device_ && st.st_ino == inode_) return Unit{};
  return Fail(ErrorCode::kIo, "{} was {} while carmad was running: {}", path_,
              there ? "replaced" : "removed", remedy_);
}

}  // namespace carma::store
