#include "slurm/spank/tail.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "slurm/spank/http.h"
#include "slurm/spank/words.h"

namespace carma::slurm {
namespace {

constexpr off_t kTailBytes = 16 << 10;
constexpr std::size_t kMostTailBytes = 2 * kTailBytes;
constexpr int kLimitMs = 3'000;
constexpr int kReapMs = 1'000;  // a killed process that needs longer to exit is hung

// Runs in the child: writes the tail to the pipe and exits. Closes slurmstepd's descriptors first,
// in case the child hangs.
[[noreturn]] void SendTail(const OpenFile& file, uid_t uid, gid_t gid,
                           const std::vector<gid_t>& groups, int pipe) {
  constexpr int kOut = 3;
  const int out = pipe == kOut ? kOut : ::dup2(pipe, kOut);
  ::syscall(SYS_close_range, kOut + 1, ~0U, 0U);
  if (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0)
    ::_exit(1);
  const int fd = ::open(file.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat now {};
  if (fd < 0 || ::fstat(fd, &now) != 0 || !S_ISREG(now.st_mode) || now.st_ino != file.inode ||
      (file.device != 0 && now.st_dev != file.device))
    ::_exit(1);
  char buffer[4096];
  off_t at = now.st_size > kTailBytes ? now.st_size - kTailBytes : 0;
  for (ssize_t count = 0; (count = ::pread(fd, buffer, sizeof buffer, at)) > 0; at += count) {
    if (at > now.st_size || ::write(out, buffer, static_cast<std::size_t>(count)) != count) break;
  }
  ::_exit(0);
}

}  // namespace

void NoteOpenFile(int fd, OpenFile& file) {
  struct stat info {};
  file.path[0] = '\0';
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), file.path, sizeof file.path - 1);
  file.path[length > 0 ? length : 0] = '\0';
  file.device = info.st_dev;
  file.inode = info.st_ino;
}

OpenFile FileOf(const std::string& text) {
  OpenFile file;
  const std::size_t blank = text.find(' ');
  const auto inode = Whole(text.substr(0, blank), 1, INT64_MAX);
  if (!inode || blank == std::string::npos || text.size() - blank > sizeof file.path) return file;
  text.copy(file.path, sizeof file.path - 1, blank + 1);
  file.inode = static_cast<ino_t>(*inode);
  return file;
}

std::string ReadOfChild(pid_t child, int from, int limit_ms) {
  std::string text;
  const std::int64_t end = MonotonicMs() + limit_ms;
  char buffer[4096];
  while (text.size() < kMostTailBytes) {
    pollfd ready{from, POLLIN, 0};
    const std::int64_t left_ms = end - MonotonicMs();
    const int count = left_ms > 0 ? ::poll(&ready, 1, static_cast<int>(left_ms)) : 0;
    if (count < 0 && errno == EINTR) continue;
    const ssize_t bytes = count > 0 ? ::read(from, buffer, sizeof buffer) : 0;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(buffer, static_cast<std::size_t>(bytes));
  }
  ::kill(child, SIGKILL);  // also kills a stopped child
  for (const std::int64_t last = MonotonicMs() + kReapMs; MonotonicMs() < last;) {
    const pid_t ended = ::waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    ::poll(nullptr, 0, 1);
  }
  return text;
}

std::string TailOf(const OpenFile& file, uid_t uid, gid_t gid, const std::vector<gid_t>& groups) {
  int ends[2];
  if (file.path[0] != '/' || ::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) SendTail(file, uid, gid, groups, ends[1]);
  ::close(ends[1]);
  std::string tail;
  if (child > 0) tail = ReadOfChild(child, ends[0], kLimitMs);
  ::close(ends[0]);
  return tail;
}

}  // namespace carma::slurm
