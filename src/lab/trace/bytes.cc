#include "lab/trace/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/try.h"

namespace carma::trace {

namespace {

constexpr std::size_t kBufferBytes = 256 << 10;  // room for more than one line of maximum length

}  // namespace

Result<std::size_t> TextSource::Read(char* to, std::size_t size) {
  const std::size_t taken = std::min(size, text_.size());
  text_.copy(to, taken);
  text_.remove_prefix(taken);
  return taken;
}

Result<FileSource> FileSource::Open(const std::string& path) {
  const bool standard_input = path == "-";
  base::UniqueFd fd(standard_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                   : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string shown = standard_input ? "standard input" : base::Printable(path);
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return FailErrno(errno, shown);
  if (S_ISDIR(info.st_mode)) return Invalid(shown + ": is a folder");
  return FileSource(std::move(fd), shown);
}

Result<std::size_t> FileSource::Read(char* to, std::size_t size) {
  for (;;) {
    const ssize_t got = ::read(fd_.get(), to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return FailErrno(errno, "read " + path_);
  }
}

LineReader::LineReader(ByteSource& source) : source_(source), buffer_(kBufferBytes) {}

Result<Unit> LineReader::Fill() {
  if (ended_) return Unit{};
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t got = CARMA_TRY(source_.Read(buffer_.data() + end_, buffer_.size() - end_));
  end_ += got;
  ended_ = got == 0;
  return Unit{};
}

void LineReader::Take(std::size_t bytes) {
  hash_.Add(Buffered().substr(0, bytes));
  begin_ += bytes;
}

Result<std::string_view> LineReader::Peek() {
  while (!ended_ && end_ - begin_ < kMaxLineBytes) CARMA_TRY(Fill());
  return Buffered().substr(0, kMaxLineBytes);
}

Result<std::optional<Line>> LineReader::Next() {
  bool too_long = false;
  for (std::size_t searched = 0;;) {
    const std::string_view buffered = Buffered();
    const std::size_t end = buffered.find('\n', searched);
    const bool last = end == std::string_view::npos && ended_;
    if (last && buffered.empty()) {
      // The rest of an overlong line has already been skipped.
      return too_long ? std::optional<Line>({.number = lines_, .too_long = true}) : std::nullopt;
    }
    if (end != std::string_view::npos || last) {
      Line line{.text = buffered.substr(0, end), .number = too_long ? lines_ : ++lines_};
      Take(std::min(line.text.size() + 1, buffered.size()));
      line.too_long = too_long || line.text.size() > kMaxLineBytes;
      if (line.text.ends_with('\r')) line.text.remove_suffix(1);
      return line;
    }
    searched = buffered.size();
    if (searched > kMaxLineBytes) {
      if (!too_long) ++lines_;
      too_long = true;
      Take(searched);
      searched = 0;
    }
    CARMA_TRY(Fill());
  }
}

Result<std::string_view> LineReader::TakeBytes() {
  if (begin_ == end_) CARMA_TRY(Fill());
  const std::string_view taken = Buffered();
  Take(taken.size());
  return taken;
}

}  // namespace carma::trace
