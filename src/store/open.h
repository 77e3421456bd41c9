// Opening the state file: inspecting it, making a new one, upgrading an older one.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace carma::store {

// The file's name in the state folder; SQLite adds files with "-wal" and "-shm".
inline constexpr std::string_view kFileName = "carma.db";

// Returns kCorrupt for damage, kUnavailable if another process holds the lock, kIo for the rest
// (full disk, I/O). written: the file named in the message about a full disk.
base::Error FromSqlite(const SQLite::Exception& exception, std::string_view doing,
                       std::string_view written = "the state file");

// Refuses symbolic links, because SQLite would put the log beside the target. Errors: kConflict for
// a link, even a dangling one.
Result<Unit> CheckNoLink(const std::string& path);

// How long a call waits while an administrator's sqlite3 holds the file.
inline constexpr int kBusyTimeoutMs = 5'000;

// Only reads. Neither the file nor its write-ahead log changes, and no other file is made. Errors:
// kCorrupt (not SQLite, not CARMA's, damaged pages, a log without its file), kConflict (a newer
// schema, a symbolic link), kNotFound (no file, so a new one may be made).
Result<Unit> Inspect(const std::string& path);

// Opens for reading and writing a file that Inspect() found sound or missing: makes a new file
// (complete before it gets its name), upgrades an older schema, sets WAL with synchronous=FULL.
Result<std::unique_ptr<SQLite::Database>> OpenForWork(const std::string& path);

}  // namespace carma::store
