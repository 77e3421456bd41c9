// The folder of a pilot's database. Only one pilot at a time can use it. The next pilot with the
// same name continues with its contents.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::cli {

class PilotBooks {
 public:
  // Creates the folder if it is missing and locks it. Waits a few seconds for a previous pilot to
  // exit. description: one line about this pilot, shown to other pilots that try to lock the
  // folder. Returns kConflict, with the other pilot's description, if the folder is in use, or a
  // system error.
  static Result<PilotBooks> Take(const std::string& folder, const std::string& description);

  const std::string& folder() const { return folder_; }
  // A process that inherits this descriptor also holds the lock, so the folder stays locked until
  // the pilot's daemon has exited.
  int lock_fd() const { return lock_.get(); }
  // True if the command of carma pilot --once has already succeeded.
  bool Begun() const;
  Result<Unit> NoteBegun() const;

 private:
  PilotBooks(std::string folder, base::UniqueFd lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  base::UniqueFd lock_;
};

}  // namespace carma::cli
