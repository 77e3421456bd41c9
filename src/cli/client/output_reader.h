// Reads a task's output file while it is being written, through truncation and rotation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::cli {

class OutputReader {
 public:
  explicit OutputReader(std::string path) : path_(std::move(path)) {}

  // Errors: kNotFound (not there yet), kDenied, kInvalid (no regular file), kIo.
  Result<Unit> Open();
  bool opened() const { return static_cast<bool>(fd_); }
  // Skips to the last `lines` lines of the present contents, but to at most their last `most`
  // bytes.
  Result<Unit> SkipToLast(std::int64_t lines,
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // Copies what was added since the last call, even from a file that has replaced the first one.
  // Returns false if the reader of `out` has gone. Opens the file if it did not exist before.
  Result<bool> CopyNew(std::FILE* out);

 private:
  Result<bool> CopyRest(std::FILE* out);
  bool Replaced() const;

  std::string path_;
  base::UniqueFd fd_;
  std::int64_t offset_ = 0;
};

// Wakes when a file or its folder changes; at the latest after a second, because network file
// systems do not report changes.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  // stop_fd: readable ends the wait at once.
  void Wait(int stop_fd);

 private:
  void Watch();

  std::string path_;
  base::UniqueFd inotify_;
};

}  // namespace carma::cli
