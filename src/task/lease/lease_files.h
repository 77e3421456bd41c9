// The record of a granted lease in its attempt's folder, and the reports that keepers leave while
// no carmad is running. Lines are appended to one file per lease, because creating several files
// would dominate the cost of a lease.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
  bool untold = false;  // the exit status was neither reported nor available from the kernel

  // The reported fields.
  static void VisitFields(auto& field, auto& end) {
    field("exit_code", end.exit_code, "", {.low = 0, .high = 255});
    field("signal", end.signal, "", {.low = 0, .high = 64});
    field("stderr_tail", end.stderr_tail, "", {.max_bytes = 4 << 20});
  }
};

struct LeaseMember {
  LeaseProcess process;
  base::UniqueFd fd;  // pidfd; empty if it could not be opened
  bool keeper = false;
};

struct Lease {
  using Moment = std::optional<std::chrono::steady_clock::time_point>;

  std::vector<LeaseMember> members;  // the waiting process, then the adopters
  std::vector<LeaseProcess> gone_keepers;
  std::optional<LeaseKey> key;
  int attempt = 0;  // 0: still waiting
  std::string dir;
  std::uint32_t uid = 0;  // owner
  std::map<std::string, std::string> environment;
  base::Duration grace{};
  std::string checkpoint_signal;
  bool adopted = false;
  std::optional<LeaseProcess> main;  // first adopter that is not a keeper
  std::optional<int> status;         // exit status of `main`, as returned by waitpid()
  bool begun = false;
  std::vector<std::string> outputs;  // last result of OutputsOf()
  std::vector<pid_t> on_gpus;        // the lease's processes on GPUs at that time
  // The start of the program may have been missed, because the process was not watched for a while.
  bool missed = false;
  bool found_gone = false;  // all its processes had exited before this carmad adopted it
  bool stopped = false;     // a signal had stopped the process when the lease was granted
  Moment withdraw_at, kill_at;
  Moment leave_at;  // when the lease counts as ended
  Moment begin_by;  // when the lease counts as started
  Moment look_at;   // when to check again whether the lease has started
  std::chrono::milliseconds look_in{};
};

// Stores the grant. Readers see a complete line or nothing unless the machine goes down. Not
// synced, because a power failure also kills the lease's processes. On a system error, nothing is
// stored.
Result<Unit> KeepGrant(const Lease& lease);
// Appends members to the stored ones.
Result<Unit> KeepMembers(const Lease& lease, const std::vector<LeaseMember>& members);
Result<Unit> KeepEnd(const Lease& lease, const LeaseEnd& end);

// Reads the lease without its members. Empty if the folder does not belong to a lease.
std::optional<Lease> ReadGrant(const std::string& dir);
// Empty if the lease was not adopted.
std::vector<LeaseMember> ReadMembers(const std::string& dir);
std::optional<LeaseEnd> ReadEnd(const std::string& dir);

// How the lease ended, as reported by one of its keepers; empty if none has reported. ends_dir: as
// in LeaseLauncher::Options.
std::optional<LeaseEnd> ReadLeftEnd(const std::string& ends_dir, core::TaskId id,
                                    const Lease& lease);
void DropLeftEnd(const std::string& ends_dir, core::TaskId id);

}  // namespace carma::task
