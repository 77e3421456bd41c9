#include "store/open.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "store/schema.h"
#include "store/store.h"

namespace carma::store {

namespace {

// Turns off SQLite's memory statistics. Updating them takes a process-wide lock on each allocation,
// so reports that run on other threads would delay the loop. The setting takes effect only if it is
// made before the first database is opened.
void KeepNoStatistics() {
  static const int kept = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)kept;
}

// Fields from the first 100 bytes of an SQLite file (https://www.sqlite.org/fileformat.html §1.3).
struct Header {
  std::int32_t user_version = 0;    // offset 60
  std::int32_t application_id = 0;  // offset 68
};

std::int32_t BigEndian(const unsigned char* bytes) {
  return static_cast<std::int32_t>((std::uint32_t{bytes[0]} << 24) |
                                   (std::uint32_t{bytes[1]} << 16) |
                                   (std::uint32_t{bytes[2]} << 8) | std::uint32_t{bytes[3]});
}

std::unexpected<base::Error> Damaged(const std::string& path, std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              "{} {}; restore a backup, or move the file and its -wal file away", path, what);
}

Result<Header> ReadHeader(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return FailErrno(errno, "open " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FailErrno(errno, "stat " + path);
  std::array<unsigned char, 100> bytes{};
  const bool whole = S_ISREG(info.st_mode) &&
                     ::pread(fd.get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes);
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), 16);
  if (!whole || magic != std::string_view("SQLite format 3\0", 16))
    return Damaged(path, "is not a CARMA state file, expected an SQLite database");
  return Header{BigEndian(&bytes[60]), BigEndian(&bytes[68])};
}

Result<Unit> CheckHeader(const std::string& path, const Header& header) {
  if (header.application_id != kApplicationId) {
    return Fail(ErrorCode::kCorrupt,
                path + " is not a CARMA state file: it belongs to another application");
  }
  if (header.user_version > SchemaVersion()) {
    return Conflict(path + " has schema " + std::to_string(header.user_version) +
                    " from a newer CARMA, but this version supports at most " +
                    std::to_string(SchemaVersion()) +
                    ": start the newer version, or restore a backup");
  }
  if (const int oldest = Migrations().front().version; header.user_version < oldest) {
    return Fail(ErrorCode::kCorrupt, "{} has schema {}, but this version requires at least {}",
                path, header.user_version, oldest);
  }
  return Unit{};
}

bool HasContent(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

std::string Uri(const std::string& path, std::string_view parameters) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "%%%02X", static_cast<unsigned>(c));
      uri += escaped;
    } else {
      uri += c;
    }
  }
  return uri + "?" + std::string(parameters);
}

// Without a log, the file is complete, and "immutable" keeps SQLite from creating files next to it.
// If the last daemon was killed, there is a log with pages that belong to the database. Exclusive
// locking then keeps the log's index in memory instead of a -shm file, and closing must not move
// the log into the database.
std::unique_ptr<SQLite::Database> OpenToLook(const std::string& path, bool with_log) {
  KeepNoStatistics();
  if (!with_log) {
    return std::make_unique<SQLite::Database>(Uri(path, "immutable=1"),
                                              SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  }
  auto db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE, kBusyTimeoutMs);
  int on = 0;
  sqlite3_db_config(db->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &on);
  db->exec("PRAGMA locking_mode=EXCLUSIVE");
  db->exec("PRAGMA query_only=ON");
  return db;
}

// Skips the line "*** in database main ***", which quick_check prints before its first finding.
std::string_view FirstFinding(std::string_view verdict) {
  for (const std::string_view line : base::Split(verdict, '\n')) {
    if (!line.starts_with("***")) return line;
  }
  return verdict;
}

// Reads the whole file in order, so that the check finds its pages in memory. The check reads them
// in random order, which takes ten times as long from the disk. POSIX_FADV_WILLNEED would not help,
// because Linux limits it to a few pages. Errors are left to the check.
void ReadAhead(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> buffer(1 << 20);
  while (fd && ::read(fd.get(), buffer.data(), buffer.size()) > 0) {
  }
}

Result<Unit> Look(const std::string& path, bool with_log) {
  ReadAhead(path);
  const std::unique_ptr<SQLite::Database> db = OpenToLook(path, with_log);
  // Checks the version again, this time including the log, because a newer CARMA may have been
  // killed right after its upgrade.
  const Header header{.user_version = db->execAndGet("PRAGMA user_version").getInt(),
                      .application_id = db->execAndGet("PRAGMA application_id").getInt()};
  CARMA_TRY(CheckHeader(path, header));
  const std::string verdict = db->execAndGet("PRAGMA quick_check(1)").getString();
  if (verdict == "ok") return Unit{};
  return Damaged(path, fmt::format("is damaged: {}", FirstFinding(verdict)));
}

void ApplyStep(SQLite::Database& db, const Migration& step) {
  db.exec("BEGIN IMMEDIATE");
  db.exec(std::string(step.sql));
  db.exec("PRAGMA user_version=" + std::to_string(step.version));
  db.exec("COMMIT");
}

// Builds the file under another name and renames it when it is complete, so carma.db is never
// incomplete and never needs a rollback journal.
Result<Unit> MakeNew(const std::string& path) {
  const std::string building = path + ".new";
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) ::unlink((building + suffix).c_str());
  base::UniqueFd fd(::open(building.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return FailErrno(errno, "making " + building);
  {
    SQLite::Database db(building, SQLite::OPEN_READWRITE);
    db.exec("PRAGMA synchronous=FULL");
    db.exec("PRAGMA journal_mode=WAL");
    db.exec("PRAGMA application_id=" + std::to_string(kApplicationId));
    for (const Migration& step : Migrations()) ApplyStep(db, step);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  if (::fsync(fd.get()) != 0) return FailErrno(errno, "fsync " + building);
  if (::rename(building.c_str(), path.c_str()) != 0) return FailErrno(errno, "rename " + building);
  const std::string folder = path.substr(0, path.rfind('/'));
  const base::UniqueFd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::fsync(dir.get()) != 0) return FailErrno(errno, "fsync " + folder);
  return Unit{};
}

void Upgrade(SQLite::Database& db) {
  const int version = db.execAndGet("PRAGMA user_version").getInt();
  for (const Migration& step : Migrations()) {
    if (step.version > version) ApplyStep(db, step);
  }
  // An older CARMA must find the new version in the header on disk, even if the log is lost.
  if (version < SchemaVersion()) db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
}

// Size of the log's index, which SQLite creates when it opens a database. If there is no space for
// it, SQLite reports only an I/O error.
constexpr std::uint64_t kIndexBytes = 32'768;

base::Error OpeningError(const SQLite::Exception& exception, const std::string& path) {
  base::Error error = FromSqlite(exception, "opening " + path);
  const std::string folder = path.substr(0, path.rfind('/'));
  struct statvfs disk {};
  if ((exception.getErrorCode() & 0xFF) == SQLITE_IOERR && ::statvfs(folder.c_str(), &disk) == 0 &&
      disk.f_bavail * disk.f_frsize < kIndexBytes)
    error.message += " (no space left on the disk that holds " + folder + ")";
  return error;
}

}  // namespace

base::Error FromSqlite(const SQLite::Exception& exception, std::string_view doing,
                       std::string_view written) {
  ErrorCode code = ErrorCode::kIo;
  std::string message = std::string(doing) + ": " + exception.what();
  switch (exception.getErrorCode() & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      code = ErrorCode::kCorrupt;
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      code = ErrorCode::kUnavailable;
      message += " (another program has locked the state file)";
      break;
    case SQLITE_FULL:
      message += fmt::format(" (no space left for {})", written);
      break;
    default:
      break;
  }
  return {code, message};
}

Result<Unit> CheckNoLink(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return Unit{};
  return Conflict(
      "{} is a symbolic link, expected a regular file: set daemon.state_dir to the target's "
      "folder",
      path);
}

Result<Unit> Inspect(const std::string& path) {
  CARMA_TRY(CheckNoLink(path));
  if (!base::Exists(path)) {
    if (HasContent(path + "-wal")) {
      return Fail(ErrorCode::kCorrupt, path + " is missing, but its log " + path +
                                           "-wal exists; expected both or neither");
    }
    return NotFound("no " + path);
  }
  if (HasContent(path + "-journal"))
    return Fail(ErrorCode::kCorrupt, path + "-journal exists, but CARMA never writes such a file");
  Header header = CARMA_TRY(ReadHeader(path));
  CARMA_TRY(CheckHeader(path, header));
  try {
    return Look(path, HasContent(path + "-wal"));
  } catch (const SQLite::Exception& exception) {
    base::Error error = FromSqlite(exception, "checking " + path);
    if (error.code != ErrorCode::kCorrupt) return std::unexpected(std::move(error));
    return Damaged(path, fmt::format("is damaged: {}", exception.what()));
  }
}

Result<std::unique_ptr<SQLite::Database>> OpenForWork(const std::string& path) {
  KeepNoStatistics();
  try {
    if (!base::Exists(path)) CARMA_TRY(MakeNew(path));
    // A restored copy may be readable by other users, but it contains all tasks' environments.
    for (const char* suffix : {"", "-wal", "-shm"}) ::chmod((path + suffix).c_str(), 0600);
    // NOMUTEX, because SQLite would otherwise take two locks for each column it reads.
    auto db = std::make_unique<SQLite::Database>(
        path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX, kBusyTimeoutMs);
    db->exec("PRAGMA synchronous=FULL");
    db->exec("PRAGMA foreign_keys=ON");
    db->exec("PRAGMA trusted_schema=OFF");
    db->exec("PRAGMA wal_autocheckpoint=1000");
    // A batch of 200 000 tasks makes the log large; this limit lets the next checkpoint shrink it.
    db->exec("PRAGMA journal_size_limit=16777216");
    Upgrade(*db);
    // Lets Prune() find unused templates without reading every description. Not part of the schema,
    // because an older CARMA can use a database with this index.
    db->tryExec(
        "CREATE INDEX IF NOT EXISTS description_template ON description(template) "
        "WHERE template IS NOT NULL");
    return db;
  } catch (const SQLite::Exception& exception) {
    return std::unexpected(OpeningError(exception, path));
  }
}

}  // namespace carma::store
