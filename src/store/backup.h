// A copy of the database, made while a daemon uses it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::store {

// Copies a consistent snapshot of the database in a state folder to the file `target` (0600). The
// file is complete, checked and durable before it gets its name. The database is only read; a
// daemon can write at the same time. Returns the size of the copy in bytes. replace: replaces an
// existing file, which is otherwise kConflict. Errors: kNotFound (no database), kDenied (another
// user's), kInvalid (the target is one of the database's own files), kConflict, kCorrupt (as
// Inspect()), kUnavailable (locked by another process), kIo. May take seconds.
Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target, bool replace);

}  // namespace carma::store
