// Looks up a task's user and switches to that user, temporarily or permanently.
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
  std::string name;        // empty: the user is not in the user database
  std::string home = "/";  // as in the user database
  std::string shell = "/bin/sh";
  std::vector<gid_t> groups;  // supplementary groups, including `gid`
};

// Looks the user up in the system's user database. May block, because the database may be on the
// network, so carmad must not call it on its event loop. gid: the group to use; if the user is no
// longer in it, the primary group is used instead. For an unknown uid, returns a user without a
// name and with only this group. Returns kUnavailable if the database cannot be queried.
Result<UserInfo> LookUpUser(std::uint32_t uid, std::uint32_t gid);

// Explains that the UID no longer belongs to the submitter, for example because the user was
// deleted. Empty if it still does, or if the submitter had no name at submission. then, now: the
// user names at submission and now. An empty name, or the UID, means that there is none.
std::string WhyNotTheSubmitter(std::uint32_t uid, const std::string& then, const std::string& now);

// Returns true if this process can switch users because it runs as root.
bool CanSwitchUser();

// Irreversibly sets groups, group and user (real, effective and saved). Call it only in a child
// that is about to exec. Returns a system error on failure.
Result<Unit> BecomeUser(const UserInfo& user);

// Limits the user's processes and threads, so that a fork bomb cannot use up those that the daemon
// and other users need. Call it only in a child that is about to exec. most: 0 means no limit.
void LimitProcesses(std::int64_t most);
// Gives up inherited protection from the OOM killer: a negative score becomes 0. Keeps a positive
// score, which makes the process a likelier victim. file: set only in tests.
void GiveUpMemoryProtection(const std::string& file = "/proc/self/oom_score_adj");
// Resets all signals to their default actions and unblocks them.
void ResetSignals();

// Accesses files with the user's privileges instead of root's, in a single-threaded process.
// Changes only the effective ids, so the user can neither signal nor trace this process. A process
// that cannot switch users already runs as the user, so only its umask changes.
class WornRights {
 public:
  // umask: for files created with these privileges. `user` must outlive this object.
  WornRights(const UserInfo& user, mode_t umask);
  ~WornRights() { DropPrivileges(); }
  WornRights(const WornRights&) = delete;
  WornRights& operator=(const WornRights&) = delete;
  // Returns false if the system refused. This process then still has its own privileges and must
  // not touch the user's files.
  [[nodiscard]] bool Wear();
  // Restores this process's own privileges. Aborts if that fails.
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
