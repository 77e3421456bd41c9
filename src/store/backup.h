// Copies the database while a daemon is using it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::store {

// Copies a consistent snapshot of the database in a state folder to the file `target` (0600). The
// file gets its name only once it is complete, checked and durable. Reads the database while a
// daemon may be writing to it. May take seconds. Returns the size of the copy in bytes.
// replace: whether to overwrite an existing file. Errors:
//   kConflict: the target exists and replace is false; or as for Inspect()
//   kNotFound: there is no database
//   kDenied: this process may not read the database
//   kInvalid: the target may be one of carmad's own files: it is in the state folder or a folder
//             below, and is the database or does not end in .db
//   kCorrupt: as for Inspect()
//   kUnavailable: another process has locked the database
//   kIo: a read or write failed
Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target, bool replace);

}  // namespace carma::store
