// Reads a task's output file while it is being written, even if it is truncated or rotated.
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

  // Returns kNotFound if the file does not exist yet, kInvalid if it is not a regular file, kDenied
  // or kIo.
  Result<Unit> Open();
  bool opened() const { return static_cast<bool>(fd_); }
  // Skips to the last `lines` lines of the current contents, but not further back than `most` bytes
  // before the end.
  Result<Unit> SkipToLast(std::int64_t lines,
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // Copies the output added since the last call, even if the file has been replaced by another one.
  // Opens the file if it did not exist before. Returns false once nothing reads `out`.
  Result<bool> CopyNew(std::FILE* out);

 private:
  Result<bool> CopyRest(std::FILE* out);
  bool Replaced() const;

  std::string path_;
  base::UniqueFd fd_;
  std::int64_t offset_ = 0;
};

// Waits for changes to a file or its folder, but at most one second, because network file systems
// do not report changes.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  // The wait ends immediately when stop_fd becomes readable.
  void Wait(int stop_fd);

 private:
  void Watch();

  std::string path_;
  base::UniqueFd inotify_;
};

}  // namespace carma::cli
