// Checks that an open file still exists at its path.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace carma::store {

// SQLite keeps using the file it opened even after the file was deleted or replaced; everything
// written from then on is lost with the last descriptor.
class FilePlace {
 public:
  FilePlace() = default;
  // Records which file is at the path now. If there is none, Check() always succeeds.
  explicit FilePlace(std::string path);
  // Errors: kIo if the file was replaced or removed.
  Result<Unit> Check() const;

 private:
  std::string path_;  // empty: no file
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace carma::store
