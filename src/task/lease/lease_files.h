// The record of a granted lease in its attempt's folder, and reports that keepers leave while no
// carmad runs. One file to which lines are appended, because creating files would be the main cost
// of a lease.
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
#include "core/values/ids.h"
#include "task/describe/lease.h"

namespace carma::task {

struct LeaseEnd {
  int exit_code = 0;
  int signal = 0;
  std::string stderr_tail;
  bool untold = false;  // not reported, and unknown to the kernel
};

struct LeaseMember {
  LeaseProcess process;
  base::UniqueFd fd;  // empty: could not be opened
  bool keeper = false;
};

struct Lease {
  using Moment = std::optional<std::chrono::steady_clock::time_point>;

  std::vector<LeaseMember> members;  // the waiting one, then the adopters
  std::vector<LeaseProcess> gone_keepers;
  std::optional<LeaseKey> key;
  int attempt = 0;  // 0: it waits
  std::string dir;
  std::uint32_t uid = 0;  // of its owner
  std::map<std::string, std::string> environment;
  base::Duration grace{};
  std::string checkpoint_signal;
  bool adopted = false;
  std::optional<LeaseProcess> main;  // first adopter that is no keeper
  std::optional<int> status;         // of main, as from waitpid()
  bool begun = false;
  std::vector<std::string> outputs;  // last result of OutputsOf()
  std::vector<pid_t> on_gpus;        // its processes on GPUs at that time
  // The start of the program may have been missed, because the process was not watched for a while.
  bool missed = false;
  bool stopped = false;  // stopped by a signal when granted
  Moment withdraw_at, kill_at;
  Moment leave_at;  // then it counts as ended
  Moment begin_by;  // then it counts as started
  Moment look_at;   // next check whether it has started
  std::chrono::milliseconds look_in{};
};

// Readers see a whole line or nothing while the machine runs. It is not synced, because a power
// failure also ends the processes in question. Errors: the system's; nothing is stored then.
Result<Unit> KeepGrant(const Lease& lease);
// Appends members to the stored ones.
Result<Unit> KeepMembers(const Lease& lease, const std::vector<LeaseMember>& members);
Result<Unit> KeepEnd(const Lease& lease, const LeaseEnd& end);

// Reads the lease without its members. Empty: the folder is not that of a lease.
std::optional<Lease> ReadGrant(const std::string& dir);
// Empty: not adopted.
std::vector<LeaseMember> ReadMembers(const std::string& dir);
std::optional<LeaseEnd> ReadEnd(const std::string& dir);

// The end reported by one of the lease's keepers; empty: none. ends_dir: LeaseLauncher::Options.
std::optional<LeaseEnd> ReadLeftEnd(const std::string& ends_dir, core::TaskId id,
                                    const Lease& lease);
void DropLeftEnd(const std::string& ends_dir, core::TaskId id);

}  // namespace carma::task
