// Copies the database while a daemon is using it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::store {

// Copies a consistent snapshot of the database in a state folder to the file `target` (0600). The
// file gets its name only after it is complete, checked and durable. The database is only read, and
// a daemon can write to it at the same time. May take seconds. Returns the size of the copy in
// bytes. replace: whether to overwrite an existing file, which otherwise causes kConflict. Also
// returns kNotFound if there is no database, kDenied if this process may not read it, kInvalid if
// the target is one of carmad's own files, kCorrupt or kConflict as Inspect() does,
// kUnavailable if another process has locked the database, or kIo.
Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target, bool replace);

}  // namespace carma::store
