// Getting at the state file: looking without touching, making a new one, upgrading an older one.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace carma::store {

// The file's name inside the state folder; SQLite's own "-wal" and "-shm" stand beside it.
inline constexpr std::string_view kFileName = "carma.db";

// kCorrupt for damage, kUnavailable for somebody else's lock, kIo for the rest (full disk, I/O).
base::Error FromSqlite(const SQLite::Exception& exception, std::string_view doing);

// Reads the file and nothing else: no byte of it or of its write-ahead log changes and no file
// appears beside it. Errors: kCorrupt (not SQLite, not CARMA's, damaged pages, a log without its
// file), kConflict (a newer schema), kNotFound (no file: a new one may be made).
base::Result<base::Unit> Inspect(const std::string& path);

// Opens for work what Inspect() found sound or missing: makes a new file (complete before it gets
// its name), upgrades an older schema, sets WAL with synchronous=FULL.
base::Result<std::unique_ptr<SQLite::Database>> OpenForWork(const std::string& path);

}  // namespace carma::store
