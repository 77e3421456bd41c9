#include "store/backup.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/try.h"
#include "base/unique_fd.h"
#include "store/open.h"

namespace carma::store {
namespace {

constexpr int kMostTries = 50;
constexpr int kTryAgainMs = 100;

// Checks that the file can be read, because SQLite's errors would not say why it cannot.
Result<Unit> CheckReadable(const std::string& books) {
  CARMA_TRY(CheckNoLink(books));
  const base::UniqueFd fd(::open(books.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd) return Unit{};
  if (errno == ENOENT) return NotFound("no {}", books);
  if (errno == EACCES || errno == EPERM) {
    return Denied(
        "{} may only be read by root and the user that carmad runs as: it contains the "
        "environments of all tasks",
        books);
  }
  return FailErrno(errno, "open " + books);
}

bool SameFile(const std::string& one, const std::string& other) {
  struct stat a {
  }, b{};
  return ::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// True if the folder is the state folder or is inside it.
bool IsBelow(const std::string& state_dir, const std::string& folder) {
  std::error_code none;
  for (std::filesystem::path path = std::filesystem::canonical(folder, none);
       path.has_relative_path(); path = path.parent_path()) {
    if (SameFile(state_dir, path)) return true;
  }
  return false;
}

Result<Unit> CheckTarget(const std::string& state_dir, const std::string& target, bool replace) {
  const std::size_t begin = target.rfind('/') + 1;  // 0 without a slash
  const std::string folder = target.substr(0, begin) + ".";
  const bool own = target.substr(begin) == kFileName
                       ? SameFile(state_dir, folder)
                       : !target.ends_with(".db") && IsBelow(state_dir, folder);
  if (own)
    return Invalid(target +
                   " is in the state folder, where carmad keeps its own files; use another folder, "
                   "or another name that ends in .db");
  struct stat info {};
  if (::lstat(target.c_str(), &info) != 0) return Unit{};
  if (!S_ISREG(info.st_mode)) return Conflict(target + " is not a regular file");
  if (!replace) return Conflict(target + " already exists");
  return Unit{};
}

// A file under construction. The destructor removes it unless it was renamed to its final name.
class Building {
 public:
  explicit Building(const std::string& target) : path_(target + ".XXXXXX"), target_(target) {
    fd_.reset(::mkostemp(path_.data(), O_CLOEXEC));  // 0600
    if (!fd_) path_.clear();
  }
  ~Building() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& path() const { return path_; }

  Result<std::int64_t> GiveName(bool replace) {
    struct stat info {};
    if (::fsync(fd_.get()) != 0 || ::fstat(fd_.get(), &info) != 0)
      return FailErrno(errno, "fsync " + path_);
    CARMA_TRY(Rename(replace));
    const std::size_t slash = target_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
    const base::UniqueFd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir || ::fsync(dir.get()) != 0) return FailErrno(errno, "fsync " + folder);
    return info.st_size;
  }

 private:
  // Without `replace`, makes a hard link, which never replaces a file that has appeared in the
  // meantime. On a file system without hard links, an empty file reserves the name instead.
  Result<Unit> Rename(bool replace) {
    if (!replace) {
      if (::link(path_.c_str(), target_.c_str()) == 0) return Unit{};
      const base::UniqueFd reserved(
          ::open(target_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!reserved && errno == EEXIST) return Conflict(target_ + " already exists");
      if (!reserved) return FailErrno(errno, "naming " + target_);
    }
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      const int why = errno;
      if (!replace) ::unlink(target_.c_str());
      return FailErrno(why, "naming " + target_);
    }
    path_.clear();
    return Unit{};
  }

  std::string path_, target_;
  base::UniqueFd fd_;
};

// Gives the copy its own identity, because a daemon that uses the copy will assign task numbers
// that the original database has already assigned to other tasks.
void BecomeOtherBooks(SQLite::Database& copy) {
  if (!copy.tableExists("books")) return;  // from an older carmad; its upgrade does this
  copy.exec("INSERT OR REPLACE INTO books SELECT value+1,NULL,1 FROM counter WHERE name='task'");
}

// Copies all pages in a single step, so that they form one snapshot and none is copied twice.
// Meanwhile, the daemon can write to the write-ahead log.
Result<Unit> Copy(const std::string& books, const std::string& path, const std::string& target) {
  try {
    SQLite::Database from(books, SQLite::OPEN_READONLY, kBusyTimeoutMs);
    SQLite::Database to(path, SQLite::OPEN_READWRITE);
    // No journal or sync is needed, because an unfinished copy is deleted and GiveName() makes a
    // complete copy durable.
    to.exec("PRAGMA journal_mode=OFF");
    to.exec("PRAGMA synchronous=OFF");
    SQLite::Backup backup(to, from);
    for (int tries = 0; backup.executeStep(-1) != SQLITE_DONE; ++tries) {
      if (tries == kMostTries) return Unavailable(books + " is locked by another program");
      ::poll(nullptr, 0, kTryAgainMs);
    }
    BecomeOtherBooks(to);
    return Unit{};
  } catch (const SQLite::Exception& exception) {
    return std::unexpected(
        FromSqlite(exception, fmt::format("copying {} to {}", books, target), "the copy"));
  }
}

}  // namespace

Result<std::int64_t> BackUp(const std::string& state_dir, const std::string& target, bool replace) {
  const std::string books = fmt::format("{}/{}", state_dir, kFileName);
  CARMA_TRY(CheckReadable(books));
  CARMA_TRY(CheckTarget(state_dir, target, replace));
  Building building(target);
  if (!building) return FailErrno(errno, "creating a file beside " + target);
  CARMA_TRY(Copy(books, building.path(), target));
  if (Result<Unit> sound = Inspect(building.path()); !sound)
    return base::Wrap(sound.error(), "the copy");
  return building.GiveName(replace);
}

}  // namespace carma::store
