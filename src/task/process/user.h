// The rights of a task's user: looking them up, and switching to them temporarily or for good.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

struct UserInfo {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;        // empty: not in the user database
  std::string home = "/";  // as in the user database
  std::string shell = "/bin/sh";
  std::vector<gid_t> groups;  // supplementary ones, `gid` among them
};

// Asks the system's user database. That may be on the network, so this blocks and is only for the
// shim. gid: the group to use; if the user is no longer in it, the user's first group is used. An
// unknown uid gives a user without a name and with that one group. Errors: kUnavailable if the
// database cannot answer.
Result<UserInfo> LookUpUser(std::uint32_t uid, std::uint32_t gid);

// A deleted user's number may have been given to another person. Empty: it is still the user who
// submitted something, or that user had no name then. then, now: the names; an empty name, or the
// number, means no name.
std::string WhyNotTheSubmitter(std::uint32_t uid, const std::string& then, const std::string& now);

// True if this process may switch users (it runs as root).
bool CanSwitchUser();

// Sets groups, group and user (real, effective and saved) irreversibly. Only in a child that is
// about to exec. Errors: the system's.
Result<Unit> BecomeUser(const UserInfo& user);

// Also only for such a child. A fork bomb must not use up the processes that the daemon and other
// users need; 0: no limit.
void LimitProcesses(std::int64_t most);
// Gives all signals their default actions and blocks none.
void ResetSignals();

// Accesses files with the user's rights instead of root's, in a process with a single thread. Only
// the effective ids change, so that the user can neither signal nor trace this process. A process
// that cannot switch users already runs as the user; then only the umask changes.
class WornRights {
 public:
  // umask: for files created with these rights. The user must outlive this.
  WornRights(const UserInfo& user, mode_t umask);
  ~WornRights() { DropPrivileges(); }
  WornRights(const WornRights&) = delete;
  WornRights& operator=(const WornRights&) = delete;
  // False: the system refused; our own rights are in force and must not be used on the user's
  // files.
  [[nodiscard]] bool Wear();
  // Aborts if our own rights cannot be restored.
  void DropPrivileges();

 private:
  const UserInfo& user_;
  const mode_t umask_;
  mode_t own_umask_ = 0;
  bool worn_ = false;
  bool switched_ = false;
  gid_t own_gid_ = 0;
  std::vector<gid_t> own_groups_;
};

}  // namespace carma::task
