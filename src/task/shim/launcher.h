// Starts tasks and reports how they ended. The real one uses a carma-shim per attempt; for tests:
// task/shim/fake_launcher.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "base/result.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "task/describe/spec.h"

namespace carma::task {

// One start of one task.
struct LaunchOrder {
  core::TaskId id{};
  int attempt = 1;
  std::string attempt_dir;  // absolute, made by the launcher: <state>/attempts/<id>/<attempt>
  TaskSpec spec;            // paths already expanded
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;                   // its name at the submission; empty: not checked
  std::optional<core::TaskId> array;  // the first task of its array
  std::vector<std::string> gpu_uuids;
  std::map<std::string, std::string>
      extra_environment;              // MPS pipe directory …; wins over the spec's
  std::int64_t max_output_bytes = 0;  // per file before it is rotated; 0: unlimited
  int output_rotations = 1;
  base::Duration kill_grace{30'000};  // real time between TERM and KILL
  // Maximum processes and threads of the task if its cgroup counts them, else of its user; 0: no
  // limit.
  std::int64_t max_processes = 0;
  core::HostShare host;  // promised cores and memory, enforced if its group can
  // Command that sets GPU memory limits of its group (task/process/group_limiter.h) before it
  // starts, and removes them after its end; empty: none.
  std::vector<std::string> limiter;
  std::vector<std::string> memory_limits;
  bool cpu_cap = false;  // hard limit to its cores; else a share when all are busy
  // Cores it may run on, as in base/cpu_list.h; empty: all.
  std::string cores;
  std::string checkpoint_signal;       // signal name; empty: cannot checkpoint
  base::Duration checkpoint_notice{};  // the time that it has then
  bool saves = false;                  // known to checkpoint: make its folder
  std::string books;                   // store::BooksId, for its folder
  bool books_named = true;
  friend bool operator==(const LaunchOrder&, const LaunchOrder&) = default;
};

// An attempt of an earlier run of carmad, as stored.
struct KnownAttempt {
  core::TaskId id{};
  int number = 0;
  std::string dir;        // as LaunchOrder::attempt_dir
  std::uint32_t uid = 0;  // of the task's owner
  bool started = false;   // its task has run: it must never start again
  friend bool operator==(const KnownAttempt&, const KnownAttempt&) = default;
};

// In ShimEvent::text, after a size.
inline constexpr char kOutputLostText[] = "of its output could not be written";

enum class ShimEventKind { kStarted, kLaunchFailed, kExited };
// A shim's report about an attempt.
struct ShimEvent {
  ShimEventKind kind{};
  core::TaskId id{};
  int attempt = 0;
  // kStarted:
  base::ProcessId process;
  std::string cgroup;    // path below the cgroup root; empty without cgroups
  std::string no_limit;  // why GPU memory is not limited as it should be
  // kLaunchFailed:
  std::string text;  // why; of kExited what else went wrong, such as lost output; or empty
  bool retryable = false;
  bool exhausted = false;    // retryable: no descriptor, process or memory left
  bool interrupted = false;  // adopted, but carmad ended before it started
  bool not_taken = false;    // a lease whose process lives but did not adopt
  // kExited:
  int exit_code = 0;
  int signal = 0;
  bool lost = false;        // no report: the shim or the machine died
  bool untold = false;      // its end is known only to its parent
  bool host_oom = false;    // the cgroup counted an oom_kill
  std::string stderr_tail;  // last bytes the task wrote to stderr, at most 64 KiB
};

class Launcher {
 public:
  using Sink = std::function<void(ShimEvent)>;  // called on the owner's loop, from Poll()
  virtual ~Launcher() = default;
  // Starts an attempt that the caller has already stored. Never blocks for long; the outcome comes
  // as an event.
  virtual void Start(LaunchOrder order) = 0;
  // The shim sends TERM to the whole group and, after the grace, KILL. A shim that fails to do so
  // is killed with its task later, and the attempt is lost. Unknown attempts are ignored.
  virtual void Stop(core::TaskId id, int attempt) = 0;
  // Restricts its processes to these cores (LaunchOrder::cores), if their group can be confined.
  // Unknown attempts are ignored.
  virtual void Confine(core::TaskId id, int attempt, const std::string& cores) {
    (void)id, (void)attempt, (void)cores;
  }
  // Changes the limits of its group (LaunchOrder::memory_limits) if it was started with some.
  // Unknown attempts are ignored.
  virtual void LimitMemory(core::TaskId id, int attempt, const std::vector<std::string>& limits) {
    (void)id, (void)attempt, (void)limits;
  }
  // Called when its time limit is near: sends the signal of its description (TaskSpec::signal).
  // Unknown attempts are ignored.
  virtual void Warn(core::TaskId id, int attempt) = 0;
  // Asks it to checkpoint: sends its checkpoint signal (LaunchOrder) to its processes that have a
  // handler for it. Unknown attempts are ignored.
  virtual void AskToSave(core::TaskId id, int attempt) = 0;
  // Finds the attempt of an earlier run by its folder and reports as if carmad had never stopped:
  // kStarted and later kExited, kExited at once if it has ended by now, kLaunchFailed{retryable} if
  // it never began (and now never will), kExited{lost} if the shim or the folder is gone without a
  // report.
  virtual void Adopt(const KnownAttempt& attempt) = 0;
  // Forgets a finished attempt and removes its folder.
  virtual void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) = 0;
  // Readable when Poll() has something to do (an epoll descriptor); -1 for fakes.
  virtual int PollFd() const = 0;
  // Hands pending events to the sink; returns at once.
  virtual void Poll(const Sink& sink) = 0;
};

}  // namespace carma::task
