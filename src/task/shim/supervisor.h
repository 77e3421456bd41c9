// Watches a running task: forwards its output, stops it on request, and ensures that no process of
// the task outlives the main process.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
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

// The signal that carmad sends to make the shim stop the task. Only the daemon's user can send it,
// even after a carmad restart. The shim starts with all signals blocked, so an early signal remains
// pending until the shim listens.
int StopSignal();
// The signal that carmad sends to make the shim warn the task before its time limit. Older shims
// ignore this signal because they block all signals.
int WarnSignal();

// The signal that carmad sends to make the shim ask the task to checkpoint.
int SaveSignal();

// The signal that carmad sends to make the shim apply new GPU memory limits (kLimitsFile).
int LimitSignal();

// Signal sent to a task shortly before its time limit.
struct WarningSignal {
  int number = 0;  // 0: no signal
  // True if only the main process gets the signal. Otherwise all processes that handle it do;
  // `spares_main` excludes the main process, for example a script's shell.
  bool main_only = false;
  bool spares_main = false;
};

// Blocks all signals and returns a descriptor for those that a shim handles:
//   StopSignal(): stop the task.
//   WarnSignal(): send the task its WarningSignal.
//   SaveSignal(): send the task its checkpoint signal.
//   LimitSignal(): change the task's limits.
//   SIGTERM, SIGINT: the system is shutting down. Stop the task but report it as lost, so that it
//   is requeued and does not count as failed.
base::UniqueFd ListenToSignals();

class Supervisor {
 public:
  // The calling process must be a subreaper. main_pid must be its child and the leader of its own
  // process group. All arguments must outlive the supervisor; group and attachment may be null.
  // oom_baseline: OomKills() before the start. checkpoint_signal: 0 if the task cannot be asked to
  // checkpoint.
  Supervisor(pid_t main_pid, base::Duration grace, int signal_fd, OutputPump& pump,
             WornRights& rights, const TaskCgroup* group, std::optional<std::int64_t> oom_baseline,
             Attachment* attachment = nullptr, WarningSignal warning = {},
             int checkpoint_signal = 0);
  // Declares that the main process is a container tool. From now on, each process inside the
  // container is signalled once; the tool and its helpers exit after these processes. group: from
  // ContainerGroup().
  void WatchContainer(std::string group) { container_ = std::move(group); }
  // change: called on LimitSignal() with the shim's own privileges. Returns "" or the reason for a
  // failure.
  void OnLimits(std::function<std::string()> change) { change_limits_ = std::move(change); }
  // Returns once the main process and all its descendants are gone. The caller must still set the
  // start times in the report. stop_file: path of kStopFile, whose contents are shown on the task's
  // terminal when the task is stopped.
  ShimReport Run(std::string stop_file = "");

 private:
  void WearRights();
  void ReadSignals();
  void Reap();
  // Handles requests from the `carma run` client.
  void ServeAttachment();
  // Sends the signal once to every process of the task, and starts the grace period.
  void BeginStop(int number = SIGTERM);
  // Shows in the task's terminal that the task is being stopped, and why.
  void TellStop();
  // Interactive shells ignore TERM, so they get HUP, as when a terminal is closed. Shells pass HUP
  // on to their jobs, and a job that handles or ignores TERM may be saving. So this waits until
  // only interactive shells remain.
  void HangUp();
  void Warn();
  void AskToSave();
  void ChangeLimits();
  // Signals every process that has a handler for this signal. Returns how many there were.
  int SignalHandlers(int number, bool spares_main);
  // Signals the main process's group and the descendants that have left this group.
  void SignalAll(std::initializer_list<int> numbers);
  // Processes in the container, excluding the tool and its helpers.
  std::vector<base::ProcessStat> Inside() const;
  // Called when the tool has exited. Its helpers get only a short time to exit instead of the grace
  // period.
  void HurryHelpers();
  // Sends KILL to every process. Called repeatedly until no process is left.
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
  std::function<std::string()> change_limits_;
  std::string stop_file_;
  std::optional<int> status_;  // exit status of the main process, from wait()
  bool childless_ = false;
  bool stopping_ = false;
  bool killed_ = false;
  bool told_undying_ = false;
  std::int64_t kill_round_ns_ = 0;
  std::int64_t deadline_ns_ = 0;
  std::int64_t same_signal_until_ns_ = 0;  // until then, a system shutdown may have killed the task
  std::int64_t ask_again_ns_ = 0;   // 0: already asked to checkpoint, or no need to repeat it
  std::int64_t warn_again_ns_ = 0;  // 0: already warned, or no need to repeat it
  std::int64_t hang_up_ns_ = 0;     // 0: already hung up, or no need to
  ShimReport report_;
};

}  // namespace carma::task
