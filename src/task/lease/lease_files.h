// What is kept of a granted lease in its attempt's folder, and what keepers leave where they find
// no daemon. One file, which grows by lines: making files is what a lease would cost most.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "core/values/task.h"
#include "task/describe/lease.h"

namespace carma::task {

struct LeaseEnd {
  int exit_code = 0;
  int signal = 0;
  std::string stderr_tail;
  bool untold = false;  // nobody has said how, and the kernel does not tell
};

struct LeaseMember {
  LeaseProcess process;
  base::UniqueFd fd;  // empty: none could be had
  bool keeper = false;
};

struct Lease {
  using Moment = std::optional<std::chrono::steady_clock::time_point>;

  std::vector<LeaseMember> members;  // the one that waits, then those that have adopted it
  std::vector<LeaseProcess> gone_keepers;
  std::optional<LeaseKey> key;
  int attempt = 0;  // 0: it waits
  std::string dir;
  std::uint32_t uid = 0;  // of its owner
  std::map<std::string, std::string> environment;
  base::Duration grace{};
  std::string checkpoint_signal;
  bool adopted = false;
  std::optional<LeaseProcess> main;  // adopted: the first that is no keeper
  std::optional<int> status;         // of main, as waitpid() has it
  bool begun = false;
  std::vector<std::string> outputs;  // OutputsOf(): those that were noted last
  std::vector<pid_t> on_gpus;        // its processes there when they were
  // Whether it has begun may have been missed: nobody looked for a while.
  bool missed = false;
  bool stopped = false;  // when it was granted, by a signal
  Moment withdraw_at, kill_at;
  Moment leave_at;  // it has ended for us, whatever still runs
  Moment begin_by;  // it counts as begun
  Moment look_at;   // whether it has begun
  std::chrono::milliseconds look_in{};
};

// Readers see all of a line or nothing, as long as the machine runs: what ends it ends the
// processes that the line is about. So nobody waits for the disk. Errors: the system's; nothing is
// kept then.
base::Result<base::Unit> KeepGrant(const Lease& lease);
// Beside those that were kept before.
base::Result<base::Unit> KeepMembers(const Lease& lease, const std::vector<LeaseMember>& members);
base::Result<base::Unit> KeepEnd(const Lease& lease, const LeaseEnd& end);

// Without its members. Empty: the folder is that of an attempt of another kind.
std::optional<Lease> ReadGrant(const std::string& dir);
// Empty: nobody has adopted it.
std::vector<LeaseMember> ReadMembers(const std::string& dir);
std::optional<LeaseEnd> ReadEnd(const std::string& dir);

// ends_dir: LeaseLauncher::Options. By one of the lease's keepers; empty: there is none of those.
std::optional<LeaseEnd> ReadLeftEnd(const std::string& ends_dir, core::TaskId id,
                                    const Lease& lease);
void DropLeftEnd(const std::string& ends_dir, core::TaskId id);

}  // namespace carma::task
