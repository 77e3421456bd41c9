// A lock that allows only one daemon per state folder.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::store {

// Holds flock() on <state_dir>/lock. The file contains the holder's pid for messages. The kernel
// releases the lock when the process ends for any reason.
class StateLock {
 public:
  // Makes the folder (0700) if it is missing. Errors: kConflict with the holder's pid, kDenied (the
  // folder belongs to another user or others may write to it), kIo.
  static Result<StateLock> Take(const std::string& state_dir);

 private:
  explicit StateLock(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::UniqueFd fd_;
};

}  // namespace carma::store
