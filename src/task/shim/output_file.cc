#include "task/shim/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace carma::task {
namespace {

using base::UniqueFd;

// With O_NONBLOCK, a pipe without a reader does not delay the task; regular files ignore the flag.
constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
constexpr mode_t kMode = 0666;  // the umask reduces this

std::string Rotated(const std::string& path, int number) {
  return number == 0 ? path : fmt::format("{}.{}", path, number);
}

}  // namespace

OutputFile::OutputFile(std::string path, Limits limits, UniqueFd fd, const struct stat& st)
    : path_(std::move(path)),
      limits_(limits),
      fd_(std::move(fd)),
      device_(st.st_dev),
      inode_(st.st_ino),
      size_(st.st_size) {
  if (!S_ISREG(st.st_mode)) limits_.max_bytes = 0;
}

Result<OutputFile> OutputFile::Open(const std::string& path, bool append, Limits limits) {
  const int flags = kFlags | (append ? 0 : O_TRUNC);
  UniqueFd fd(::open(path.c_str(), flags, kMode));
  if (!fd && errno == ENOENT) {
    std::error_code told_by_open;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), told_by_open);
    fd.reset(::open(path.c_str(), flags, kMode));
  }
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0)
    return FailErrno(errno, "cannot open output file '" + path + "'");
  // Resolves links, because rotation must rename the file itself. A link to it may lead to another
  // disk.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return OutputFile(error ? path : real.string(), limits, std::move(fd), st);
}

bool OutputFile::SameFile(const OutputFile& other) const {
  return device_ == other.device_ && inode_ == other.inode_;
}

void OutputFile::Write(std::string_view data) {
  while (!data.empty()) {
    const std::size_t count = Room(data);
    if (count == 0) {
      Rotate();
      continue;
    }
    WritePart(data.substr(0, count));
    data.remove_prefix(count);
  }
}

std::size_t OutputFile::Room(std::string_view data) const {
  if (limits_.max_bytes == 0) return data.size();
  if (size_ >= limits_.max_bytes) return 0;
  const auto room = static_cast<std::size_t>(limits_.max_bytes - size_);
  if (data.size() <= room) return data.size();
  const std::size_t line_end = data.substr(0, room).rfind('\n');
  if (line_end != std::string_view::npos) return line_end + 1;
  // No line ends before the limit, so the line goes to the next file, or is split if it fills a
  // whole file by itself.
  return size_ > 0 ? 0 : room;
}

void OutputFile::WritePart(std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd_.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      last_error_ = n < 0 ? errno : ENOSPC;
      dropped_bytes_ += static_cast<std::int64_t>(data.size());
      return;
    }
    size_ += n;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool OutputFile::WasMoved() const {
  struct stat st {};
  if (::stat(path_.c_str(), &st) != 0) return errno == ENOENT || errno == ENOTDIR;
  return st.st_dev != device_ || st.st_ino != inode_;
}

bool OutputFile::Reopen(int flags) {
  UniqueFd fresh(::open(path_.c_str(), kFlags | flags, kMode));
  struct stat st {};
  if (!fresh || ::fstat(fresh.get(), &st) != 0) return false;
  fd_ = std::move(fresh);
  device_ = st.st_dev;
  inode_ = st.st_ino;
  size_ = st.st_size;
  if (!S_ISREG(st.st_mode)) limits_.max_bytes = 0;
  return true;
}

void OutputFile::Rotate() {
  size_ = 0;
  // A file that the user has moved is kept as it is.
  if (WasMoved()) {
    if (Reopen(0)) return;
    // A deleted file is emptied, because it would otherwise fill the disk unnoticed.
    struct stat st {};
    if (::fstat(fd_.get(), &st) == 0 && st.st_nlink == 0) (void)!::ftruncate(fd_.get(), 0);
    return;
  }
  bool moved = limits_.rotations > 0;
  for (int number = limits_.rotations - 1; number >= 0; --number) {
    const bool renamed =
        ::rename(Rotated(path_, number).c_str(), Rotated(path_, number + 1).c_str()) == 0;
    if (number == 0) moved = renamed;
  }
  if (moved) {
    // If no new file can be created, for example because of a quota, the old one keeps growing.
    if (!Reopen(O_EXCL) && errno != EEXIST) ::rename(Rotated(path_, 1).c_str(), path_.c_str());
    return;
  }
  // The file could not be moved aside, because no older files are allowed or the user may not write
  // to the folder. Empty it instead to stay within the limit.
  if (::ftruncate(fd_.get(), 0) != 0) limits_.max_bytes = 0;
}

void OutputFile::Close() {
  if (!fd_) return;
  if (dropped_bytes_ > 0) {
    const std::int64_t dropped = dropped_bytes_;
    WritePart(fmt::format("\ncarma: {} bytes of output were lost: {}\n", dropped,
                          std::strerror(last_error_)));
    dropped_bytes_ = dropped;  // the note itself is not the task's output
  }
  fd_.reset();
}

void Tail::Append(std::string_view data) {
  if (data.size() > capacity_) data.remove_prefix(data.size() - capacity_);
  const std::size_t grow = std::min(data.size(), capacity_ - ring_.size());
  ring_.append(data.substr(0, grow));
  data.remove_prefix(grow);
  while (!data.empty()) {
    const std::size_t count = std::min(data.size(), capacity_ - next_);
    std::memcpy(ring_.data() + next_, data.data(), count);
    next_ = (next_ + count) % capacity_;
    data.remove_prefix(count);
  }
}

std::string Tail::Text() const {
  return ring_.substr(next_) + ring_.substr(0, next_);
}

}  // namespace carma::task
