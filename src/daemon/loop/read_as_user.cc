#include "daemon/loop/read_as_user.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace carma::daemon {
namespace {

// The system call changes only this thread, while glibc's setgroups() changes all threads of the
// process.
bool SetThreadGroups(const std::vector<gid_t>& groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

// A second call checks the result, because setfsuid() returns the previous value even if it fails.
bool SetFileUser(uid_t uid) {
  ::setfsuid(uid);
  return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == uid;
}
bool SetFileGroup(gid_t gid) {
  ::setfsgid(gid);
  return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == gid;
}

using Capabilities = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

// Reads the capabilities of the calling thread.
bool Capget(Capabilities& found) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return ::syscall(SYS_capget, &header, found.data()) == 0;
}
bool Capset(const Capabilities& wanted) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return ::syscall(SYS_capset, &header, wanted.data()) == 0;
}

// Capabilities must be dropped, because they would give access to other users' files. For example,
// CAP_SYS_PTRACE opens the links in /proc/PID.
bool SetEffective(const std::array<std::uint32_t, _LINUX_CAPABILITY_U32S_3>& effective) {
  Capabilities all{};
  if (!Capget(all)) return false;
  for (std::size_t i = 0; i < all.size(); ++i) all[i].effective = effective[i];
  return Capset(all);
}

// Links such as /proc/PID/cwd are not followed, because they bypass folders that the user may not
// enter.
int OpenPath(const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
  // openat2() is missing before Linux 5.6, and a container's system call filter may block it. The
  // fallback, realpath(), resolves links by reading their text, which respects the user's
  // permissions.
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? ::open(real.get(), static_cast<int>(how.flags) | O_NOFOLLOW) : -1;
}

struct OpenFile {
  base::UniqueFd fd;
  off_t size = 0;
};

// Only regular files may be opened, because reading from a pipe or terminal could block forever.
Result<OpenFile> OpenAs(const ThreadRights& rights, const std::string& path) {
  if (!rights.worn())
    return Denied(path + ": carmad could not switch to the user's privileges to read it");
  OpenFile file{base::UniqueFd(OpenPath(path))};
  if (!file.fd) return FailErrno(errno, path);
  struct stat st {};
  if (::fstat(file.fd.get(), &st) != 0) return FailErrno(errno, path);
  // Refuses files in /proc. For example, /proc/self describes carmad, which may always read it.
  struct statfs system {};
  const bool proc = ::fstatfs(file.fd.get(), &system) != 0 || system.f_type == PROC_SUPER_MAGIC;
  if (!S_ISREG(st.st_mode) || proc) return Invalid(path + ": expected a regular file");
  file.size = st.st_size;
  return file;
}

}  // namespace

ThreadRights::ThreadRights(const task::UserInfo& user)
    : needed_(task::CanSwitchUser() && user.uid != 0) {
  if (!needed_) return;
  own_groups_.resize(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  ::getgroups(static_cast<int>(own_groups_.size()), own_groups_.data());
  Capabilities own{};
  known_ = Capget(own);
  for (std::size_t i = 0; i < own.size(); ++i) own_effective_[i] = own[i].effective;
  // The UID is set last, because some security modules do not let a process change its groups once
  // it has lost root's file access.
  worn_ = known_ && SetThreadGroups(user.groups) && SetFileGroup(user.gid) &&
          SetFileUser(user.uid) && SetEffective({});
}

ThreadRights::~ThreadRights() {
  if (!needed_) return;
  const bool back = (!known_ || SetEffective(own_effective_)) && SetFileUser(::geteuid()) &&
                    SetFileGroup(::getegid()) && SetThreadGroups(own_groups_);
  CARMA_CHECK(back, "a thread cannot regain the daemon's privileges");
}

Result<std::string> ReadAs(const task::UserInfo& user, const std::string& path,
                           std::size_t max_bytes) {
  const ThreadRights rights(user);
  const OpenFile file = CARMA_TRY(OpenAs(rights, path));
  if (file.size > static_cast<off_t>(max_bytes)) {
    return Invalid("{}: expected at most {} MiB, but the file is {} MiB", path, max_bytes >> 20,
                   file.size >> 20);
  }
  Result<std::string> text = base::ReadAll(file.fd.get(), max_bytes);
  if (!text) return base::Wrap(text.error(), path);
  return text;
}

Result<FileEnd> ReadEndAs(const task::UserInfo& user, const std::string& path,
                          std::size_t max_bytes) {
  const ThreadRights rights(user);
  const OpenFile file = CARMA_TRY(OpenAs(rights, path));
  FileEnd end;
  end.size = file.size;
  end.from = std::max<std::int64_t>(0, end.size - static_cast<std::int64_t>(max_bytes));
  end.text.resize(static_cast<std::size_t>(end.size - end.from));
  const ssize_t read = ::pread(file.fd.get(), end.text.data(), end.text.size(), end.from);
  if (read < 0) return FailErrno(errno, path);
  end.text.resize(static_cast<std::size_t>(read));  // the file may have been truncated since
  return end;
}

}  // namespace carma::daemon
