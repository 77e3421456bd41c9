#include "cli/pilot/books.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::cli {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::size_t kMaxDescription = 4096;

std::string BegunFile(const std::string& folder) {
  return folder + "/begun";
}

// Returns false if another pilot holds the lock.
Result<bool> Lock(int fd, const std::string& path) {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno(errno, "flock " + path);
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace

Result<PilotBooks> PilotBooks::Take(const std::string& folder, const std::string& description) {
  CARMA_TRY(base::MakeDirs(folder, 0700));
  const std::string path = folder + "/pilot.lock";
  base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return FailErrno(errno, path);
  const bool locked = CARMA_TRY(Lock(fd.get(), path));
  if (!locked) {
    const std::string other = base::ReadFile(path, kMaxDescription).value_or("");
    return Conflict(
        "{} is in use by {}: use a different --name for a new database, or wait for that pilot to "
        "exit",
        folder, base::Printable(base::Trim(other), 400));
  }
  if (::ftruncate(fd.get(), 0) != 0) return FailErrno(errno, path);
  CARMA_TRY(base::Wrap(base::WriteAll(fd.get(), description + "\n"), path));
  return PilotBooks(folder, std::move(fd));
}

bool PilotBooks::Begun() const {
  return base::Exists(BegunFile(folder_));
}

Result<Unit> PilotBooks::NoteBegun() const {
  return base::WriteFileAtomic(BegunFile(folder_), "", 0600);
}

}  // namespace carma::cli
