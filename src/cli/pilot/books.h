// The folder of a pilot's books. One pilot at a time has it: the next of the same name goes on with
// what is in it.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::cli {

class PilotBooks {
 public:
  // Makes the folder where it is missing. whose: one line about this pilot, told to the next that
  // comes meanwhile. Where the one before is just ending it waits some seconds. Errors: kConflict,
  // with the line of who has it; the system's.
  static base::Result<PilotBooks> Take(const std::string& folder, const std::string& whose);

  const std::string& folder() const { return folder_; }
  // Whoever has a copy of it has the books: they stay taken while our daemon still ends.
  int lock_fd() const { return lock_.get(); }
  // The command that these books were to begin with has run to its end (carma pilot --once).
  bool Begun() const;
  base::Result<base::Unit> NoteBegun() const;

 private:
  PilotBooks(std::string folder, base::UniqueFd lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  base::UniqueFd lock_;
};

}  // namespace carma::cli
