#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace carma::base {

Result<std::string> ReadAll(int fd, std::size_t max_bytes) {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno(errno, "read");
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > max_bytes)
      return Invalid("larger than " + std::to_string(max_bytes) + " bytes");
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes) {
  // O_NONBLOCK, because opening a FIFO must not block. Regular files ignore the flag.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return FailErrno(errno, path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return FailErrno(errno, path);
  if (!S_ISREG(st.st_mode)) return Invalid(path + ": not a regular file");
  return Wrap(ReadAll(fd.get(), max_bytes), path);
}

std::string NamedLine(const std::string& file, std::string_view name) {
  constexpr std::size_t kMost = 1 << 20;
  const std::string text = ReadFile(file, kMost).value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with(name)) return std::string(Trim(line.substr(name.size())));
  }
  return "";
}

Result<Unit> WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno(errno, "write");
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return Unit{};
}

namespace {

// like: status of the file to replace; the new file gets its owner and mode. If null, both are left
// as created.
Result<Unit> Fill(int fd, std::string_view data, const struct stat* like) {
  CARMA_TRY(WriteAll(fd, data));
  if (like != nullptr) {
    if (::fchown(fd, like->st_uid, like->st_gid) != 0) return FailErrno(errno, "keeping its owner");
    if (::fchmod(fd, like->st_mode & 07777) != 0) return FailErrno(errno, "keeping its mode");
  }
  if (::fsync(fd) != 0) return FailErrno(errno, "fsync");
  return Unit{};
}

// Like the kernel's fs.protected_symlinks: in a sticky, world-writable folder such as /tmp, refuses
// links of other users, except those of the folder's owner. The link could still be replaced after
// this check.
Result<Unit> MayFollow(const std::string& link, uid_t owner) {
  const std::string parent = std::filesystem::path(link).parent_path().string();
  struct stat folder {};
  if (::stat(parent.empty() ? "." : parent.c_str(), &folder) != 0) return FailErrno(errno, link);
  constexpr mode_t kShared = S_ISVTX | S_IWOTH;
  if ((folder.st_mode & kShared) != kShared || owner == ::geteuid() || owner == folder.st_uid)
    return Unit{};
  return Denied("{}: a symbolic link of user {} in a world-writable folder is not followed", link,
                owner);
}

// Resolves the links in the path. Parts of the path that do not exist are left as they are.
Result<std::string> WithoutLinks(const std::string& path, int most = 40) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    struct stat st {};
    if (::lstat(part.c_str(), &st) != 0) return path;
    if (!S_ISLNK(st.st_mode)) continue;
    CARMA_TRY(MayFollow(part, st.st_uid));
    std::error_code error;
    const std::filesystem::path to = std::filesystem::read_symlink(part, error);
    if (error || most == 0) return FailErrno(error ? error.value() : ELOOP, path);
    const std::string rest = end == std::string::npos ? "" : path.substr(end);
    // If the link's target is absolute, operator/ drops the folder.
    return WithoutLinks((std::filesystem::path(part).parent_path() / to).string() + rest, most - 1);
  }
  return path;
}

// The name may already belong to another user's link, or to a file left behind by an earlier
// process with the same pid. If so, tries to delete it and uses another name.
UniqueFd OpenDraft(std::string& name, unsigned mode) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::open(name.c_str(), kFlags, mode));
  if (fd || errno != EEXIST) return fd;
  ::unlink(name.c_str());
  name += ".again";
  return UniqueFd(::open(name.c_str(), kFlags, mode));
}

Result<Unit> Replace(const std::string& path, std::string_view data, unsigned mode,
                     const struct stat* like) {
  std::string temporary = path + ".tmp." + std::to_string(::getpid());
  UniqueFd fd = OpenDraft(temporary, mode);
  if (!fd) return FailErrno(errno, path);
  Result<Unit> written = Fill(fd.get(), data, like);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = FailErrno(errno, "rename");
  if (!written) ::unlink(temporary.c_str());
  CARMA_TRY(Wrap(std::move(written), path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  UniqueFd dir(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir) ::fsync(dir.get());
  return Unit{};
}

}  // namespace

Result<Unit> WriteFileAtomic(const std::string& path, std::string_view data, unsigned mode) {
  const std::string file = CARMA_TRY(WithoutLinks(path));
  struct stat before {};
  if (::stat(path.c_str(), &before) != 0) return Replace(path, data, mode, nullptr);
  // /dev/stdout may point to something without a path, such as a pipe.
  const bool there = ::lstat(file.c_str(), &before) == 0;
  if (there && S_ISREG(before.st_mode)) return Replace(file, data, mode, nullptr);
  const UniqueFd fd(there ? ::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
                          : ::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return Wrap(fd ? WriteAll(fd.get(), data) : FailErrno(errno, "open"), path);
}

Result<Unit> RewriteFileAtomic(const std::string& path, std::string_view data) {
  const std::string file = CARMA_TRY(WithoutLinks(path));
  struct stat before {};
  if (::lstat(file.c_str(), &before) != 0) return FailErrno(errno, path);
  return Replace(file, data, 0600, &before);
}

Result<Unit> MakeDirs(const std::string& path, unsigned mode) {
  std::string part;
  for (std::size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') continue;
    part = path.substr(0, i);
    if (part.empty()) continue;
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) return FailErrno(errno, part);
  }
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return FailErrno(errno, path);
  if (!S_ISDIR(st.st_mode)) return Invalid(path + ": not a directory");
  return Unit{};
}

bool Exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<bool> CheckExists(const std::string& path) {
  if (Exists(path)) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return FailErrno(errno, path);
}

bool IsFolder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool IsProgram(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

bool IsReplaced(const std::string& exe_link) {
  std::error_code unknown;  // without /proc
  return std::filesystem::read_symlink(exe_link, unknown).string().ends_with(" (deleted)");
}

std::string ExecutableDir() {
  // Read the link only once, because its target changes if the process changes its mounts or its
  // executable is replaced.
  static const std::string folder = [] {
    char buffer[PATH_MAX];
    const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer);
    if (n <= 0) return std::string(".");
    return std::filesystem::path(std::string(buffer, static_cast<std::size_t>(n)))
        .parent_path()
        .string();
  }();
  return folder;
}

std::string GetEnv(const char* name, std::string_view fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::string(value) : std::string(fallback);
}

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view pair = *each;
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && equals > 0)
      environment.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return environment;
}

std::string FindOnPath(std::string_view search, std::string_view name) {
  for (const std::string_view folder : Split(search, ':')) {
    std::string program = std::string(folder).append("/").append(name);
    if (folder.starts_with('/') && IsProgram(program)) return program;
  }
  return "";
}

}  // namespace carma::base
