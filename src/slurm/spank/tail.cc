#include "slurm/spank/tail.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace carma::slurm {
namespace {

constexpr off_t kTailBytes = 16 << 10;

// In the child: to the pipe, and no way back.
[[noreturn]] void SendTail(const ErrorFile& file, uid_t uid, gid_t gid, int out) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(1);
  const int fd = ::open(file.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat now {};
  if (fd < 0 || ::fstat(fd, &now) != 0 || !S_ISREG(now.st_mode) || now.st_dev != file.device ||
      now.st_ino != file.inode)
    ::_exit(1);
  char buffer[4096];
  off_t at = now.st_size > kTailBytes ? now.st_size - kTailBytes : 0;
  for (ssize_t count = 0; (count = ::pread(fd, buffer, sizeof buffer, at)) > 0; at += count) {
    if (at > now.st_size || ::write(out, buffer, static_cast<std::size_t>(count)) != count) break;
  }
  ::_exit(0);
}

}  // namespace

void NoteErrorFile(ErrorFile& file) {
  struct stat info {};
  file.path[0] = '\0';
  if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const ssize_t length = ::readlink("/proc/self/fd/2", file.path, sizeof file.path - 1);
  file.path[length > 0 ? length : 0] = '\0';
  file.device = info.st_dev;
  file.inode = info.st_ino;
}

std::string TailOf(const ErrorFile& file, uid_t uid, gid_t gid) {
  std::string tail;
  int ends[2];
  if (file.path[0] != '/' || ::pipe2(ends, O_CLOEXEC) != 0) return tail;
  const pid_t child = ::fork();
  if (child == 0) SendTail(file, uid, gid, ends[1]);
  ::close(ends[1]);
  char buffer[4096];
  for (;;) {
    const ssize_t count = child > 0 ? ::read(ends[0], buffer, sizeof buffer) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    tail.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return tail;
}

}  // namespace carma::slurm
