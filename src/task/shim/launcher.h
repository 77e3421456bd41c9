// Starts tasks and reports how they ended. The real launcher uses one carma-shim per attempt; tests
// use task/shim/fake_launcher.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "task/describe/spec.h"

namespace carma::task {

// A request to start one attempt of a task.
struct LaunchOrder {
  core::TaskId id{};
  int attempt = 1;
  std::string attempt_dir;  // absolute; the launcher creates it: <state>/attempts/<id>/<attempt>
  TaskSpec spec;            // paths already expanded
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;                   // the user name at submission; empty: not checked
  std::optional<core::TaskId> array;  // first task of its array
  std::vector<std::string> gpu_uuids;
  std::map<std::string, std::string>
      extra_environment;              // MPS pipe directory …; overrides the spec's variables
  std::int64_t max_output_bytes = 0;  // per file before it is rotated; 0: unlimited
  int output_rotations = 1;
  base::Duration kill_grace{30'000};  // real time between TERM and KILL
  // Maximum number of processes and threads; 0 means no limit. Applies to the task if its cgroup
  // can count them, otherwise to everything that its user runs.
  std::int64_t max_processes = 0;
  core::HostShare host;  // promised cores and memory, enforced if the task's group can do so
  // Command that sets the GPU memory limits of the task's group (task/process/group_limiter.h)
  // before the task starts and removes them after it has ended; empty if there is none.
  std::vector<std::string> limiter;
  std::vector<std::string> memory_limits;
  bool cpu_cap = false;  // `host.cpus` is a hard limit, not a share when all cores are busy
  // Cores that the task may run on, such as "0-3,8" (base/cpu_list.h). Empty means all cores.
  std::string cores;
  std::string checkpoint_signal;       // signal name; empty: the task cannot checkpoint
  base::Duration checkpoint_notice{};  // time that the task has after this signal
  bool saves = false;                  // known to checkpoint, so its checkpoint folder is created
  std::string books;                   // store::BooksId, for the checkpoint folder
  bool books_named = true;
  friend bool operator==(const LaunchOrder&, const LaunchOrder&) = default;
};

// Stored state of an attempt that was started by an earlier run of carmad.
struct KnownAttempt {
  core::TaskId id{};
  int number = 0;
  std::string dir;        // as LaunchOrder::attempt_dir
  std::uint32_t uid = 0;  // the task's owner
  bool started = false;   // the task has run, so this attempt must never start again
  friend bool operator==(const KnownAttempt&, const KnownAttempt&) = default;
};

// If output was lost, ShimEvent::text is the amount, such as "3.2M", followed by these words.
inline constexpr char kOutputLostText[] = "of its output could not be written";

enum class ShimEventKind { kStarted, kLaunchFailed, kExited };
// A shim's report about an attempt.
struct ShimEvent {
  ShimEventKind kind{};
  core::TaskId id{};
  int attempt = 0;
  base::ProcessId process;
  std::string cgroup;    // kStarted: path below the cgroup root; empty without cgroups
  std::string no_limit;  // kStarted: why GPU memory is not limited as it should be
  std::string text;  // kLaunchFailed: why. kExited: what else went wrong (lost output), or empty
  bool retryable = false;
  // kLaunchFailed, retryable: the start failed before it touched anything that belongs to the task,
  // for example because no process, memory or disk space was left.
  bool exhausted = false;
  bool interrupted = false;  // kLaunchFailed: adopted, but carmad had exited before the start
  // kLaunchFailed: the task goes back to waiting and is tried again later. Either its user does not
  // exist, or a stopped process or a job step did not adopt its lease in time.
  bool waits = false;
  bool no_user = false;  // waits: the user does not exist
  // Unless otherwise noted, the remaining fields are only for kExited.
  int exit_code = 0;
  int signal = 0;
  bool lost = false;        // no report, because the shim or the machine died
  bool untold = false;      // only the process's parent received its exit status
  bool host_oom = false;    // the cgroup counted an oom_kill
  std::string stderr_tail;  // last bytes that the task wrote to stderr, at most 64 KiB
  // CLOCK_BOOTTIME when the process ended; 0: unknown. Negative if it ended before the last boot.
  std::int64_t ended_boot_ns = 0;
  // kLaunchFailed, kExited: the attempt had already ended when this carmad adopted it.
  bool ended_before_adoption = false;
};

class Launcher {
 public:
  using Sink = std::function<void(ShimEvent)>;  // called on the owner's loop, from Poll()
  virtual ~Launcher() = default;
  // Starts an attempt that the caller has already stored. Does not block for long; an event reports
  // the outcome.
  virtual void Start(LaunchOrder order) = 0;
  // Makes the shim send TERM to the whole group and, after the grace period, KILL. If the shim
  // fails to do so, it is later killed together with its task, and the attempt counts as lost.
  // Unknown attempts are ignored. why: a sentence, shown in the task's terminal if it has one.
  virtual void Stop(core::TaskId id, int attempt, const std::string& why = "") = 0;
  // Restricts the attempt's processes to these cores (LaunchOrder::cores) if their group supports
  // this. Unknown attempts are ignored.
  virtual void Confine(core::TaskId id, int attempt, const std::string& cores) {
    (void)id, (void)attempt, (void)cores;
  }
  // Changes the GPU memory limits of the attempt's group (LaunchOrder::memory_limits) if it was
  // started with limits. Returns false if the shim cannot be notified now, for example because the
  // disk is full. Unknown attempts are ignored.
  virtual bool LimitMemory(core::TaskId id, int attempt, const std::vector<std::string>& limits) {
    (void)id, (void)attempt, (void)limits;
    return true;
  }
  // Sends the task the signal that its description requests (TaskSpec::signal), because its time
  // limit is near. Unknown attempts are ignored.
  virtual void Warn(core::TaskId id, int attempt) = 0;
  // Asks the task to checkpoint by sending the checkpoint signal (LaunchOrder) to each of its
  // processes that handles this signal. leaves_by: wall-clock time at which the task will be
  // stopped; the task can read it in the attempt's folder. Sends no signal if an earlier carmad has
  // already sent it for this deadline. Unknown attempts are ignored.
  virtual void AskToSave(core::TaskId id, int attempt, base::Time leaves_by) = 0;
  // Replaces the deadline in the attempt's folder with "inf", because the task may stay after all.
  // Unknown attempts are ignored.
  virtual void DropDeadline(core::TaskId id, int attempt) { (void)id, (void)attempt; }
  // Takes over an attempt from an earlier carmad, identified by its folder. Reports events as if
  // carmad had never stopped:
  //   kStarted, later kExited   the attempt is running
  //   kExited                   it has ended
  //   kExited{lost}             the shim or the folder is gone without a report
  //   kLaunchFailed{retryable}  it never began, and now never will
  virtual void Adopt(const KnownAttempt& attempt) = 0;
  // Forgets a finished attempt and removes its folder.
  virtual void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) = 0;
  // The task of a running shim; empty if `process` is not a shim of this launcher. Works before the
  // shim has reported the start of its task, when the task's program may already be running.
  virtual std::optional<core::TaskId> TaskOfShim(const base::ProcessId& process) const {
    (void)process;
    return std::nullopt;
  }
  // An epoll descriptor that is readable when Poll() has work to do; -1 for fakes.
  virtual int PollFd() const = 0;
  // Passes pending events to the sink; returns immediately.
  virtual void Poll(const Sink& sink) = 0;
};

}  // namespace carma::task
