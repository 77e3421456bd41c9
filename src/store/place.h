// Whether a file that is open still stands where it was opened.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace carma::store {

// SQLite goes on in the file that it opened, also when that was deleted or another put in its
// place: what it then writes durably is lost with the last descriptor.
class FilePlace {
 public:
  FilePlace() = default;
  // The file as it is now. One that does not exist is never missed.
  explicit FilePlace(std::string path);
  // Errors: kIo: another file stands there now, or none.
  base::Result<base::Unit> Check() const;

 private:
  std::string path_;  // empty: no file
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace carma::store
