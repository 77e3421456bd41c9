// Opens the state file: inspects an existing file, creates a new one, or upgrades an older one.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace carma::store {

// The name of the database file in the state folder. SQLite creates "-wal" and "-shm" files next to
// it.
inline constexpr std::string_view kFileName = "carma.db";

// Converts an SQLite exception to kCorrupt (damage), kUnavailable (another process holds the lock)
// or kIo (anything else, such as a full disk). written: the file to name in a message about a full
// disk.
base::Error FromSqlite(const SQLite::Exception& exception, std::string_view doing,
                       std::string_view written = "the state file");

// Refuses symbolic links, because SQLite would put the log next to the link's target. Returns
// kConflict for a link, even if its target is missing.
Result<Unit> CheckNoLink(const std::string& path);

// How long a call waits while another program (such as an administrator's sqlite3) locks the file.
inline constexpr int kBusyTimeoutMs = 5'000;

// Checks the file without changing it or its log, and without creating other files. Returns
// kCorrupt if the file is not an SQLite file of CARMA, has damaged pages, or is missing although
// its log exists; kConflict for a newer schema or a link; and kNotFound if there is no file.
Result<Unit> Inspect(const std::string& path);

// Opens the file for reading and writing in WAL mode with synchronous=FULL. Call this only after
// Inspect() has found the file to be sound or missing. Creates a missing file, which appears under
// its name only once it is complete. Upgrades an older schema. Only the owner may read the file and
// its log.
Result<std::unique_ptr<SQLite::Database>> OpenForWork(const std::string& path);

}  // namespace carma::store
