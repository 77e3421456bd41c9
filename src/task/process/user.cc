#include "task/process/user.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/file.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "base/user.h"

namespace carma::task {

Result<UserInfo> LookUpUser(std::uint32_t uid, std::uint32_t gid) {
  const std::optional<base::UserEntry> entry = CARMA_TRY(base::FindUser(uid));
  UserInfo user{.uid = uid, .gid = gid, .groups = {gid}};
  if (!entry) return user;
  user.gid = entry->gid;
  user.name = entry->name;
  if (!entry->home.empty()) user.home = entry->home;
  if (!entry->shell.empty()) user.shell = entry->shell;
  user.groups = base::GroupsOf(user.name, user.gid);
  // The user may have left this group since submission.
  if (std::ranges::find(user.groups, gid) != user.groups.end()) user.gid = gid;
  return user;
}

std::string WhyNotTheSubmitter(std::uint32_t uid, const std::string& then, const std::string& now) {
  const std::string number = std::to_string(uid);
  if (then.empty() || then == number || then == now) return "";
  if (now.empty() || now == number) return fmt::format("user {} no longer exists", then);
  return fmt::format("user id {} belonged to {} at submission and now belongs to {}", uid, then,
                     now);
}

bool CanSwitchUser() {
  return ::getuid() == 0;
}

Result<Unit> BecomeUser(const UserInfo& user) {
  if (::setgroups(user.groups.size(), user.groups.data()) != 0)
    return FailErrno(errno, "setgroups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return FailErrno(errno, "setgid");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return FailErrno(errno, "setuid");
  return Unit{};
}

void LimitProcesses(std::int64_t most) {
  rlimit limit{};
  if (most <= 0 || ::getrlimit(RLIMIT_NPROC, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(most);
  limit.rlim_cur = std::min(limit.rlim_cur, wanted);
  limit.rlim_max = std::min(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NPROC, &limit);
}

void GiveUpMemoryProtection(const std::string& file) {
  const Result<std::string> adjustment = base::ReadFile(file, 64);
  if (!adjustment || !adjustment->starts_with('-')) return;
  const base::UniqueFd fd(::open(file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (fd) (void)base::WriteAll(fd.get(), "0");
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

WornRights::WornRights(const UserInfo& user, mode_t umask)
    : user_(user), umask_(umask), own_gid_(::getegid()) {
  const int count = ::getgroups(0, nullptr);
  own_groups_.resize(static_cast<std::size_t>(std::max(count, 0)));
  ::getgroups(static_cast<int>(own_groups_.size()), own_groups_.data());
}

bool WornRights::Wear() {
  if (worn_) return true;
  worn_ = true;
  own_umask_ = ::umask(umask_);
  switched_ = CanSwitchUser() && user_.uid != 0;
  if (!switched_) return true;
  const bool good = ::setgroups(user_.groups.size(), user_.groups.data()) == 0 &&
                    ::setegid(user_.gid) == 0 && ::seteuid(user_.uid) == 0;
  if (!good) DropPrivileges();
  return good;
}

void WornRights::DropPrivileges() {
  if (!worn_) return;
  worn_ = false;
  ::umask(own_umask_);
  if (!switched_) return;
  CARMA_CHECK(::seteuid(0) == 0, "cannot switch back to our own user");
  CARMA_CHECK(::setegid(own_gid_) == 0, "cannot switch back to our own group");
  CARMA_CHECK(::setgroups(own_groups_.size(), own_groups_.data()) == 0,
              "cannot switch back to our own groups");
}

}  // namespace carma::task
