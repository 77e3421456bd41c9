#include "cli/client/output_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace carma::cli {
namespace {

constexpr std::size_t kBlock = 64 << 10;
constexpr int kWatchMs = 1000;

}  // namespace

Result<Unit> OutputReader::Open() {
  // O_NONBLOCK, because a FIFO at this path must not block us.
  base::UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FailErrno(errno, "open " + path_);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return FailErrno(errno, "stat " + path_);
  if (!S_ISREG(found.st_mode)) return Invalid(path_ + ": expected a regular file");
  fd_ = std::move(fd);
  offset_ = 0;
  return Unit{};
}

Result<Unit> OutputReader::SkipToLast(std::int64_t lines, std::int64_t most) {
  struct stat found {};
  if (::fstat(fd_.get(), &found) != 0) return FailErrno(errno, "stat " + path_);
  std::array<char, kBlock> block;
  std::int64_t at = found.st_size;
  std::int64_t newlines = 0;
  bool last_byte = true;  // the newline at the end of the last line does not start a new one
  const std::int64_t first = std::max<std::int64_t>(at - most, 0);
  offset_ = lines == 0 ? at : first;
  while (lines > 0 && at > first) {
    const auto size = static_cast<std::size_t>(std::min<std::int64_t>(at, kBlock));
    at -= static_cast<std::int64_t>(size);
    const ssize_t n = ::pread(fd_.get(), block.data(), size, at);
    if (n < 0) return FailErrno(errno, "read " + path_);
    for (auto i = static_cast<std::size_t>(n); i-- > 0; last_byte = false) {
      if (block[i] != '\n' || last_byte) continue;
      if (++newlines < lines) continue;
      offset_ = at + static_cast<std::int64_t>(i) + 1;
      return Unit{};
    }
  }
  return Unit{};
}

Result<bool> OutputReader::CopyRest(std::FILE* out) {
  struct stat found {};
  // Starts over if a new attempt of the task has truncated the file.
  if (::fstat(fd_.get(), &found) == 0 && found.st_size < offset_) offset_ = 0;
  std::array<char, kBlock> block;
  for (;;) {
    const ssize_t n = ::pread(fd_.get(), block.data(), block.size(), offset_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno(errno, "read " + path_);
    if (n == 0) return std::fflush(out) == 0;
    const auto size = static_cast<std::size_t>(n);
    if (std::fwrite(block.data(), 1, size, out) != size) return false;
    offset_ += n;
  }
}

bool OutputReader::Replaced() const {
  struct stat own {};
  struct stat now {};
  if (::fstat(fd_.get(), &own) != 0 || ::stat(path_.c_str(), &now) != 0) return false;
  return own.st_ino != now.st_ino || own.st_dev != now.st_dev;
}

Result<bool> OutputReader::CopyNew(std::FILE* out) {
  for (bool opens = !fd_;; opens = true) {
    const Result<Unit> opened = opens ? Open() : Unit{};
    if (!opened && opened.error().code == ErrorCode::kNotFound) return true;
    if (!opened) return std::unexpected(opened.error());
    // Must be checked before copying. A file that has already been replaced no longer grows, so the
    // copy is complete.
    const bool replaced = Replaced();
    const auto copied = CopyRest(out);
    if (!copied || !*copied || !replaced) return copied;
  }
}

FileWatch::FileWatch(const std::string& path)
    : path_(path), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  Watch();
}

// May be called repeatedly. An existing watch is kept, and a new file gets its own watch.
void FileWatch::Watch() {
  if (!inotify_) return;
  ::inotify_add_watch(inotify_.get(), path_.c_str(), IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF);
  const std::string folder = path_.substr(0, std::max<std::size_t>(1, path_.rfind('/')));
  ::inotify_add_watch(inotify_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO);
}

void FileWatch::Wait(int stop_fd) {
  Watch();
  pollfd polls[2] = {{.fd = inotify_.get(), .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
  ::poll(polls, 2, kWatchMs);
  std::array<char, 4096> events;
  while (inotify_ && ::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace carma::cli
