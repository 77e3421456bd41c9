// Copies the database while a daemon is using it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::store {

// Copies a consistent snapshot of the database in a state folder to the file `target` (0600). The
// file gets its name only after it is complete, checked and durable. The database is only read, and
// a daemon can write to it at the same time. Returns the size of the copy in bytes. replace:
// replaces an existing file; otherwise an existing file causes kConflict. Errors: kNotFound (no
// database), kDenied (another user's database), kInvalid (the target is one of the database's own
// files), kConflict, kCorrupt (as from Inspect()), kUnavailable (locked by another process), kIo.
// May take seconds.
Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target, bool replace);

}  // namespace carma::store
