// Starts tasks and tells how they ended. Real one: carma-shim per attempt; fake:
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
#include "core/values/task.h"
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
  std::string user;
  std::optional<core::TaskId> array;  // the first task of its array
  std::vector<std::string> gpu_uuids;
  std::map<std::string, std::string>
      extra_environment;              // MPS pipe directory …; wins over the spec's
  std::int64_t max_output_bytes = 0;  // per file before it is rotated; 0: unlimited
  int output_rotations = 1;
  base::Duration kill_grace{30'000};  // real time between TERM and KILL
  // Processes and threads at once, of the task where its cgroup counts them, else of all of its
  // user's; 0: no limit.
  std::int64_t max_processes = 0;
  core::HostShare host;  // what it is promised of the server, enforced as far as its group can be
  // Sets limits on the GPU memory of its group (task/process/group_limiter.h) before it begins, and
  // removes them once it has ended; empty: there are none.
  std::vector<std::string> limiter;
  std::vector<std::string> memory_limits;
  bool cpu_cap = false;  // never more than its cores; else its part of them where all are busy
  // Cores it may run on, as base/cpu_list.h writes them; empty: all.
  std::string cores;
  std::string checkpoint_signal;       // asks it to save, by name; empty: nothing does
  base::Duration checkpoint_notice{};  // the time that it has then
  bool saves = false;                  // it is known to save: its folder for that is made
  std::string books;                   // store::BooksId, for its folder
  bool books_named = true;
  friend bool operator==(const LaunchOrder&, const LaunchOrder&) = default;
};

// An attempt of an earlier life of the daemon, as its books have it.
struct KnownAttempt {
  core::TaskId id{};
  int number = 0;
  std::string dir;        // as LaunchOrder::attempt_dir
  std::uint32_t uid = 0;  // of the task's owner
  bool started = false;   // its task was seen to run: it must never begin again
  friend bool operator==(const KnownAttempt&, const KnownAttempt&) = default;
};

enum class ShimEventKind { kStarted, kLaunchFailed, kExited };
// What a shim reported about an attempt.
struct ShimEvent {
  ShimEventKind kind{};
  core::TaskId id{};
  int attempt = 0;
  // kStarted:
  base::ProcessId process;
  std::string cgroup;    // path below the cgroup root; empty without cgroups
  std::string no_limit;  // why its GPU memory is not limited although it should be; or empty
  // kLaunchFailed:
  std::string text;
  bool retryable = false;
  bool exhausted = false;    // retryable: the machine gave us no descriptor, process or memory
  bool interrupted = false;  // of an adopted attempt: the daemon ended before it began
  bool not_taken = false;    // a lease whose process lives but did not come for its GPUs
  // kExited:
  int exit_code = 0;
  int signal = 0;
  bool lost = false;        // no report was left: the shim or the machine died
  bool untold = false;      // how it ended nobody can tell who is not its parent
  bool host_oom = false;    // the cgroup counted an oom_kill
  std::string stderr_tail;  // last bytes the task wrote to stderr, at most 64 KiB
};

class Launcher {
 public:
  using Sink = std::function<void(ShimEvent)>;  // called on the owner's loop, from Poll()
  virtual ~Launcher() = default;
  // Durable state first: the caller has recorded the attempt. Never blocks for long; the outcome
  // comes as an event.
  virtual void Start(LaunchOrder order) = 0;
  // TERM to the whole group, the grace, then KILL (by the shim). A shim that does not get it done
  // is killed with its task some time later, and the attempt is lost. Unknown attempts are ignored.
  virtual void Stop(core::TaskId id, int attempt) = 0;
  // From now on its processes run on these cores only (LaunchOrder::cores), where their group can
  // be confined. Unknown attempts are ignored.
  virtual void Confine(core::TaskId id, int attempt, const std::string& cores) {
    (void)id, (void)attempt, (void)cores;
  }
  // Its time limit comes: the signal of its description (TaskSpec::signal). Unknown attempts are
  // ignored.
  virtual void Warn(core::TaskId id, int attempt) = 0;
  // It is to save what it has done: its checkpoint signal (LaunchOrder), to those of its processes
  // that have a handler for it. Unknown attempts are ignored.
  virtual void AskToSave(core::TaskId id, int attempt) = 0;
  // Finds the attempt of an earlier life of the daemon by its folder and reports as if it had never
  // left: kStarted and later kExited, kExited at once if it ended meanwhile,
  // kLaunchFailed{retryable} if it never began (and now never will), kExited{lost} if the shim or
  // the folder is gone without a report.
  virtual void Adopt(const KnownAttempt& attempt) = 0;
  // Forgets a finished attempt and removes its folder.
  virtual void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) = 0;
  // Readable when Poll() has something to do (an epoll descriptor); -1 for fakes.
  virtual int PollFd() const = 0;
  // Hands pending events to the sink; returns at once.
  virtual void Poll(const Sink& sink) = 0;
};

}  // namespace carma::task
