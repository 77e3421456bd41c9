#include "base/journal.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

namespace carma::base {

bool IsJournal(int fd, std::string_view stream) {
  struct stat info {};
  if (stream.empty() || ::fstat(fd, &info) != 0) return false;
  return stream == fmt::format("{}:{}", info.st_dev, info.st_ino);
}

std::string_view PriorityPrefix(LogLevel level) {
  static const std::string stream = GetEnv("JOURNAL_STREAM");
  if (!IsJournal(STDERR_FILENO, stream)) return "";
  switch (level) {  // of syslog(3)
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kWarn:
      return "<4>";
    case LogLevel::kError:
      return "<3>";
  }
  return "";
}

}  // namespace carma::base
