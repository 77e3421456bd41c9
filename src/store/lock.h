// A lock that allows only one daemon per state folder, and a check that an open file is still the
// file at its path.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::store {

// Holds flock() on <state_dir>/lock. The file contains the holder's pid and socket for use in
// messages. The kernel releases the lock when the process exits for any reason.
class StateLock {
 public:
  // Creates the folder (0700) if it is missing. socket: where this daemon will listen. Returns
  // kConflict if the lock is taken, naming the holder's pid and its socket if that differs; kDenied
  // if the folder belongs to another user or others may write to it; or kIo.
  static Result<StateLock> Take(const std::string& state_dir, const std::string& socket = "");

 private:
  explicit StateLock(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::UniqueFd fd_;
};

// Detects that a file was deleted or replaced. SQLite continues to use the file that it opened, and
// anything written to a deleted file is lost when its last descriptor is closed.
class FilePlace {
 public:
  FilePlace() = default;
  // Records which file is at the path now. If no file is there, Check() always succeeds. remedy:
  // what to do if it is gone; must stay valid.
  FilePlace(std::string path, std::string_view remedy);
  // Returns kIo if the file has been replaced or removed.
  Result<Unit> Check() const;

 private:
  std::string path_;  // empty: no file
  std::string_view remedy_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace carma::store
