// Watches over a running task: carries its output, stops it when asked, and sees to it that
// nothing of it outlives its main process.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "task/attach/attachment.h"
#include "task/process/cgroup.h"
#include "task/process/user.h"
#include "task/shim/output_pump.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// What carmad sends to a shim that is to stop its task. Only the daemon's user may, and a signal
// reaches a shim whether or not its daemon was restarted. Signals sent before the shim listens
// wait: it is started with all of them blocked.
int StopSignal();
// Likewise to one whose task is to be sent the signal before its time limit. An older shim ignores
// it: all signals are blocked there.
int WarnSignal();

// Likewise to one whose task is to save what it has done.
int SaveSignal();

// The signal that a task wants before its time limit.
struct WarningSignal {
  int number = 0;  // 0: none
  // To the main process only; else to all that handle it, the main process too unless it is a
  // script's shell.
  bool main_only = false;
  bool spares_main = false;
};

// The signals a shim listens to, as one descriptor; all signals are blocked.
// StopSignal(): stop the task. WarnSignal(): send it its WarningSignal. SaveSignal(): send it its
// checkpoint signal. SIGTERM, SIGINT: the system
// wants us to end (a shutdown): stop the task, but report it lost, so that it is started again
// rather than counted as failed.
base::UniqueFd ListenToSignals();

class Supervisor {
 public:
  // The calling process is a subreaper and main_pid its child, leader of its own group. The others
  // outlive the supervisor; group may be null, and so may attachment. oom_baseline: OomKills()
  // before the start. checkpoint_signal: asks the task to save; 0: nothing does.
  Supervisor(pid_t main_pid, base::Duration grace, int signal_fd, OutputPump& pump,
             WornRights& rights, const TaskCgroup* group, std::optional<std::int64_t> oom_baseline,
             Attachment* attachment = nullptr, WarningSignal warning = {},
             int checkpoint_signal = 0);
  // The main process is a tool that runs the task in a container. Signals go to the processes
  // inside, each once; the tool and its helpers end after them. group: ContainerGroup.
  void WatchContainer(std::string group) { container_ = std::move(group); }
  // Returns when the main process and all descendants are gone. Fills all of the report but the
  // start.
  ShimReport Run();

 private:
  void WearRights();
  void ReadSignals();
  void Reap();
  // What the one who runs the task in his terminal asks for.
  void ServeAttachment();
  // The signal to every process of the task, once, then the clock of the grace runs.
  void BeginStop(int number = SIGTERM);
  void Warn();
  void AskToSave();
  // To every process that handles it; returns how many there are.
  int SignalHandlers(int number, bool spares_main);
  // To the main process's group, and to the descendants that left it.
  void SignalAll(std::initializer_list<int> numbers);
  // In a container: what runs there besides the tool and its helpers.
  std::vector<base::ProcessStat> Inside() const;
  // The tool has ended: its helpers need no grace.
  void HurryHelpers();
  // KILL to every process; repeated until none is left.
  void KillAll();
  void CheckDeadline();
  int PollTimeoutMs() const;
  bool HostOom() const;

  const pid_t main_;
  const base::Duration grace_;
  const int signal_fd_;
  OutputPump& pump_;
  WornRights& rights_;
  const TaskCgroup* const group_;
  const std::optional<std::int64_t> oom_baseline_;
  Attachment* const attachment_;
  const WarningSignal warning_;
  const int checkpoint_signal_;
  std::optional<std::string> container_;
  std::optional<int> status_;  // of the main process, as wait() tells it
  bool childless_ = false;
  bool stopping_ = false;
  bool killed_ = false;
  std::int64_t deadline_ns_ = 0;
  std::int64_t same_signal_until_ns_ = 0;  // so long its end may turn out to be the system's
  std::int64_t ask_again_ns_ = 0;          // 0: it has been asked to save, or need not be
  std::int64_t warn_again_ns_ = 0;         // likewise of its warning signal
  ShimReport report_;
};

}  // namespace carma::task
