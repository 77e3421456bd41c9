// A copy of the books, made while a daemon works on them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::store {

// Copies the books of a state folder, as they were at one moment, into the file `target` (0600):
// all that was durable then, and nothing of what comes after. The file is checked, whole and
// durable before it gets its name. The books themselves are only read; a daemon goes on writing
// meanwhile. Returns the size of the copy in bytes. replace: a file of that name is replaced, else
// it is kConflict. Errors: kNotFound (no books there), kDenied (they are another user's), kInvalid
// (the target is one of the books' own files), kConflict, kCorrupt (as Inspect()), kUnavailable
// (somebody keeps them locked), kIo. May take seconds.
base::Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target,
                                  bool replace);

}  // namespace carma::store
