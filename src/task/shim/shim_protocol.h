// The files through which carmad and carma-shim communicate about one attempt. All are in the
// attempt's folder, which only the daemon's user may list or write:
//
//   order.json    daemon -> shim: what to run. Need not be synced: if `owner` is not on disk,
//                 nothing has run.
//   script        the batch script's text, owned by the task's user, mode 0500
//   owner         the process responsible for this attempt: the shim that will run it, or a
//                 restarted daemon that abandons it. Created once by link(), and durable before the
//                 task's first instruction.
//   started.json  the task's main process; written when its exec has succeeded
//   exit.json     how the task ended, or why it could not start; durable. Once it exists, no
//                 process of the task is running.
//   progress      shim -> daemon: the task's progress, as found in its output (ProgressReport)
//   *.reserve     blocks set aside at the start for started.json and exit.json, so that a full disk
//                 cannot lose them
//   shim.log      the shim's own error messages
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/process_id.h"
#include "base/result.h"
#include "core/values/task_request.h"
#include "task/describe/spec.h"
#include "task/shim/launcher.h"

namespace carma::task {

inline constexpr char kOrderFile[] = "order.json";
inline constexpr char kScriptFile[] = "script";
inline constexpr char kOwnerFile[] = "owner";
inline constexpr char kStartedFile[] = "started.json";
inline constexpr char kExitFile[] = "exit.json";
// File with new GPU memory limits, which replace those in the order. Contains words as in
// LaunchOrder::memory_limits, separated by spaces.
inline constexpr char kLimitsFile[] = "limits";
// Time at which a task that was asked to checkpoint will be stopped, in milliseconds since the Unix
// epoch, or "inf" if the task may keep running after all. Read by the Python module carma_task.
// Ends with a newline once the checkpoint signal has been sent.
inline constexpr char kDeadlineFile[] = "leaves_by_ms";
// Contains the reason for stopping the task, as a sentence to show on its terminal.
inline constexpr char kStopFile[] = "stop";
inline constexpr char kShimLogFile[] = "shim.log";

inline constexpr std::size_t kMaxOrderBytes = 32 << 20;
inline constexpr std::size_t kMaxOwnerBytes = 4096;
inline constexpr std::size_t kStartedReserveBytes = 16'384;
inline constexpr std::size_t kReportReserveBytes = 131'072;  // the tail in base64 takes 87'384
inline constexpr std::size_t kMaxLimitsBytes = 65'536;
inline constexpr std::size_t kMaxStopBytes = 16'384;
inline constexpr std::size_t kStderrTailBytes = 65'536;
inline constexpr std::int64_t kMaxGraceMs = 86'400'000;  // one day

inline constexpr std::int64_t kMostProcesses = 4'194'304;  // the kernel's maximum

// The shim's end of the pipe for early answers. Once the task is running, the shim writes the text
// of started.json as one line. If exit.json cannot be written, its text follows as a second line.
inline constexpr int kEarlyAnswerFd = 3;
// Exit status of a shim that ran nothing because the attempt has another owner.
inline constexpr int kShimNotOwner = 3;
// Environment variable that marks the processes of an attempt. Used to find those that remain after
// the shim has died.
inline constexpr char kAttemptVariable[] = "CARMA_ATTEMPT_DIR";

// The part of a LaunchOrder that the shim needs, as written to order.json. An empty command means
// that the folder's script is run. stderr_path is never empty; if it equals stdout_path, both
// streams share one file.
struct ShimOrder : LaunchOrder {
  std::string cgroup_base;  // folder in which the task's group is made; empty: no groups
  std::string cgroup_root;  // mount point of the cgroup v2 tree

  static void VisitFields(auto& field, auto& order) {
    // An order without a user must not run as root.
    constexpr base::FieldRule kUser{
        .high = UINT32_MAX - 1, .required = true, .expected = "user and group IDs"};
    constexpr base::FieldRule kArguments{.max_bytes = kMaxArgBytes,
                                         .max_items = kMaxArgs,
                                         .fits = HasNoNul,
                                         .expected = "strings without NUL bytes"};
    constexpr base::FieldRule kFolder{.max_bytes = kMaxPathBytes};
    constexpr base::FieldRule kFile{.max_bytes = kMaxPathBytes,
                                    .fits = IsAbsolutePath,
                                    .required = true,
                                    .expected = "an absolute path"};
    field("id", order.id, "", {.low = 1, .required = true, .expected = "a task number"});
    field("attempt", order.attempt, "", {.low = 1});
    field("uid", order.uid, "", kUser);
    field("gid", order.gid, "", kUser);
    field("user", order.user, "", {.max_bytes = 256, .unless_empty = true});
    field("name", order.spec.name, "", {.max_bytes = kMaxNameBytes});
    field("command", order.spec.command, "", kArguments);
    field("script_args", order.spec.script_args, "", kArguments);
    field("workdir", order.spec.workdir, "", kFile);
    field("environment", order.spec.environment);
    field("umask", order.spec.umask, "", kUmask);
    field("extra_environment", order.extra_environment);
    field("conda_env", order.spec.conda_env, "", kFolder);
    field("container", order.spec.container, "",
          {.max_bytes = kMaxPathBytes, .fits = base::Parses<ParseContainer>});
    field("container_mounts", order.spec.container_mounts, "",
          {.max_bytes = kMaxPathBytes,
           .max_items = kMaxMounts,
           .fits = base::Parses<ParseMount>,
           .unless_empty = true});
    field("gpu_uuids", order.gpu_uuids, "", {.max_bytes = 256, .max_items = core::kMaxGpus});
    field("array", order.array, "", {.low = 1});
    field("array_index", order.spec.array_index, "", {.low = 0});
    field("slurm", order.spec.slurm);
    field("attach", order.spec.attach, "",
          {.max_bytes = 32, .fits = IsAttachName, .expected = "32 hexadecimal digits"});
    field("terminal", order.spec.terminal);
    field("parameters", order.spec.parameters, "", {.unless_empty = true});
    field("append_output", order.spec.append_output, "", {.unless_empty = true});
    field("no_progress", order.spec.no_progress, "", {.unless_empty = true});
    field("signal", order.spec.signal);
    field("signal_main", order.spec.signal_main, "", {.unless_empty = true});
    field("checkpoint_signal", order.checkpoint_signal, "", {.max_bytes = 16});
    field("checkpoint_notice_ms", order.checkpoint_notice, "",
          {.low = 0, .high = std::int64_t{366} * 86'400'000});
    field("saves", order.saves, "", {.unless_empty = true});
    field("books", order.books, "", {.max_bytes = 64});
    field("books_named", order.books_named);
    field("stdout", order.spec.stdout_path, "", kFile);
    field("stderr", order.spec.stderr_path, "", kFile);
    field("max_output_bytes", order.max_output_bytes, "", {.low = 0});
    field("output_rotations", order.output_rotations, "", {.low = 0, .high = 1000});
    field("kill_grace_ms", order.kill_grace, "", {.low = 0, .high = kMaxGraceMs});
    field("max_processes", order.max_processes, "", {.low = 0, .high = kMostProcesses});
    field("cpus", order.host.cpus, "", {.low = 0, .high = core::kMaxCpus});
    field("host_memory_mib", order.host.memory_mib, "",
          {.low = 0, .high = core::kMaxHostMemoryMib});
    field("own_cores", order.host.cores, "", kFolder);
    field("limiter", order.limiter, "", kArguments);
    field("memory_limits", order.memory_limits, "", kArguments);
    field("cpu_cap", order.cpu_cap, "", {.unless_empty = true});
    field("cores", order.cores, "", kFolder);
    field("cgroup_base", order.cgroup_base, "", kFolder);
    field("cgroup_root", order.cgroup_root, "", kFolder);
  }
  friend bool operator==(const ShimOrder&, const ShimOrder&) = default;
};

template <class Visitor, class Process>
void VisitProcess(Visitor& field, Process& process) {
  field("pid", process.pid, "",
        {.low = 1, .high = INT32_MAX, .required = true, .expected = "a process ID"});
  field("start_ticks", process.start_ticks, "",
        {.required = true, .expected = "clock ticks since boot"});
}

struct ShimOwner {
  base::ProcessId process;
  std::string boot_id;
  bool abandoned = false;  // true: a daemon decided that the attempt will never run

  static void VisitFields(auto& field, auto& owner) {
    VisitProcess(field, owner.process);
    field("boot_id", owner.boot_id, "", {.max_bytes = 100});
    field("abandoned", owner.abandoned);
  }
  friend bool operator==(const ShimOwner&, const ShimOwner&) = default;
};

struct ShimStarted {
  base::ProcessId process;
  std::string cgroup;    // path below the cgroup root; empty: no group
  std::string no_limit;  // why the kernel does not limit GPU memory as it should

  static void VisitFields(auto& field, auto& started) {
    VisitProcess(field, started.process);
    field("cgroup", started.cgroup, "", {.max_bytes = kMaxPathBytes});
    field("no_limit", started.no_limit, "", {.max_bytes = 8192, .unless_empty = true});
  }
  friend bool operator==(const ShimStarted&, const ShimStarted&) = default;
};

struct ShimReport {
  bool launched = true;    // false: only text, retryable and no_user are valid
  std::string text;        // why the task could not start
  bool retryable = false;  // the machine's fault, not the task's
  bool no_user = false;    // retryable, but not the machine's fault: the user does not exist
  int exit_code = 0;
  int signal = 0;               // 0: it exited
  bool lost = false;            // killed by the system (shutdown), not by carmad
  bool host_oom = false;        // the task's cgroup counted an oom_kill
  std::string stderr_tail;      // any bytes; in JSON as base64
  std::int64_t started_ms = 0;  // since the Unix epoch
  std::int64_t ended_ms = 0;
  std::int64_t started_boot_ns = 0;  // CLOCK_BOOTTIME
  std::int64_t ended_boot_ns = 0;
  std::int64_t max_rss_kib = 0;  // of the largest process
  std::int64_t dropped_output_bytes = 0;
  int output_error = 0;  // errno of the last bytes that were dropped

  // Visits all fields except stderr_tail, which is written separately.
  static void VisitFields(auto& field, auto& report) {
    field("launched", report.launched, "", {.required = true, .expected = "true or false"});
    if (!report.launched) {
      field("text", report.text, "", {.max_bytes = 16'384});
      field("retryable", report.retryable);
      field("no_user", report.no_user, "", {.unless_empty = true});
      return;
    }
    field("exit_code", report.exit_code, "", {.low = 0, .high = 255});
    field("signal", report.signal, "", {.low = 0, .high = 64});
    field("lost", report.lost);
    field("host_oom", report.host_oom);
    field("started_ms", report.started_ms, "", {.low = 0});
    field("ended_ms", report.ended_ms, "", {.low = 0});
    field("started_boot_ns", report.started_boot_ns, "", {.low = 0});
    field("ended_boot_ns", report.ended_boot_ns, "", {.low = 0});
    field("max_rss_kib", report.max_rss_kib, "", {.low = 0});
    field("dropped_output_bytes", report.dropped_output_bytes, "", {.low = 0});
    field("output_error", report.output_error, "", {.low = 0, .high = 4096});
  }
  friend bool operator==(const ShimReport&, const ShimReport&) = default;
};

// Each returns one line of JSON. ToText(order) rejects text that is not UTF-8, because JSON cannot
// represent it unchanged. The tail of a report may contain arbitrary bytes.
Result<std::string> ToText(const ShimOrder& order);
std::string ToText(const ShimOwner& owner);
std::string ToText(const ShimStarted& started);
std::string ToText(const ShimReport& report);

// Any input is allowed. Errors are kInvalid and contain the JSON pointer to the wrong value.
Result<ShimOrder> ParseShimOrder(std::string_view text);
Result<ShimOwner> ParseShimOwner(std::string_view text);
Result<ShimStarted> ParseShimStarted(std::string_view text);
Result<ShimReport> ParseShimReport(std::string_view text);

// Makes this process the attempt's owner, so that it can run or abandon it. The owner file appears
// complete or not at all. Returns false if the attempt already has an owner.
Result<bool> ClaimAttempt(const std::string& attempt_dir, bool abandon);
// Syncs the claim to disk, so that it survives a power failure.
Result<Unit> SyncClaim(const std::string& attempt_dir);
// Returns false if the owner has exited, or if the machine has been rebooted since.
bool OwnerLives(const ShimOwner& owner);

// A file with preallocated blocks that gets its name only once it is complete.
class ReservedFile {
 public:
  // Reserves `bytes` for <dir>/<name>. Returns a system error on failure, such as a full disk.
  Result<Unit> Reserve(const std::string& dir, const std::string& name, std::size_t bytes);
  // Writes the text and gives the file its name. May be called again after an error. durable: the
  // file survives a power failure once this returns.
  Result<Unit> Commit(std::string_view text, bool durable);

 private:
  std::string dir_;
  std::string name_;
};

}  // namespace carma::task
