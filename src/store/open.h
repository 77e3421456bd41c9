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

// kCorrupt for damage, kUnavailable if locked by another process, kIo for the rest (full disk,
// I/O). written: what a full disk has no space for.
base::Error FromSqlite(const SQLite::Exception& exception, std::string_view doing,
                       std::string_view written = "the state file");

// SQLite would put the log beside the target of a link. Errors: kConflict: it is one, even if it
// leads nowhere.
Result<Unit> CheckNoLink(const std::string& path);

// How long a call waits while an administrator's sqlite3 holds the file.
inline constexpr int kBusyTimeoutMs = 5'000;

// Only reads the file: neither it nor its write-ahead log changes, and no other file is made.
// Errors: kCorrupt (not SQLite, not CARMA's, damaged pages, a log without its file), kConflict (a
// newer schema, a symbolic link), kNotFound (no file: a new one may be made).
Result<Unit> Inspect(const std::string& path);

// Opens for reading and writing a file that Inspect() found sound or missing: makes a new file
// (complete before it gets its name), upgrades an older schema, sets WAL with synchronous=FULL.
Result<std::unique_ptr<SQLite::Database>> OpenForWork(const std::string& path);

}  // namespace carma::store
