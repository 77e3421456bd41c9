// The API's view of a task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/views.h"
#include "task/progress/report.h"

namespace carma::api {

// A notification about a task, and whether it was delivered.
struct NoticeView {
  std::string event;
  std::string target;
  std::string state;
  std::int64_t made_ms = 0;
  int tries = 0;
  std::string text;

  static void VisitFields(auto& field, auto& notice) {
    field("event", notice.event, "Event: start, end, fail, oom, requeue.");
    field("target", notice.target, "Target of the notice; for a URL, only its host.");
    field("state", notice.state, "State of the notice.", {.words = "waiting,sent,failed,dropped"});
    field("made_ms", notice.made_ms, "When the event happened.");
    field("tries", notice.tries, "Number of tries.", {.low = 0});
    field("text", notice.text, "Why the last attempt failed; empty if it did not fail.");
  }
};

// Times are in milliseconds since the epoch, time spans in seconds, memory in MiB, and fractions in
// the range 0..1.
struct TaskView {
  std::uint64_t id = 0;
  std::string name;
  std::string user;
  std::uint32_t uid = 0;
  std::string state;
  std::string reason;
  std::string reason_text;
  int gpus = 1;
  std::string gpu_type;
  std::optional<std::int64_t> gpu_memory_min_mib;
  std::vector<std::string> on_gpus;
  std::vector<std::string> not_on_gpus;
  bool linked_gpus = false;
  std::vector<std::int64_t> gpu_indices;
  std::vector<std::string> gpu_uuids;
  std::int64_t claim_mib = 0;
  std::optional<std::int64_t> others_claim_mib;
  std::optional<std::int64_t> predicted_mib;
  std::optional<std::int64_t> bound_mib;
  std::string estimate_method;
  std::vector<std::string> estimate_remarks;
  std::optional<std::int64_t> observed_mib;
  std::optional<std::int64_t> over_promise_mib;
  std::vector<std::int64_t> wrong_gpus;
  std::int64_t peak_mib = 0;
  bool exclusive = false;
  std::int64_t priority = 0;
  int attempt = 0;
  int ooms = 0;
  std::string queue;
  std::int64_t submitted_ms = 0;
  std::optional<std::int64_t> waiting_since_ms;
  std::optional<std::int64_t> latest_start_ms;
  std::optional<std::int64_t> likely_start_ms;
  std::optional<std::int64_t> first_start_ms;
  std::optional<std::int64_t> launched_ms;
  std::optional<std::int64_t> attempt_ended_ms;
  std::optional<std::int64_t> ended_ms;
  std::optional<double> time_limit_s;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string exit_detail;
  std::string placement_reason;
  std::string stdout_path;
  std::string stderr_path;
  std::string workdir;
  std::vector<std::string> command;
  std::optional<std::uint64_t> array_id;
  std::optional<std::int64_t> array_index;
  std::optional<std::uint64_t> pid;
  std::string comment;
  std::string container;
  std::string origin;
  std::string account;
  std::string qos;
  std::string sharing;
  std::int64_t memory_limit_mib = 0;
  std::int64_t group_limit_mib = 0;
  int thread_percent = 0;
  int partition_sms = 0;
  std::string sharing_note;
  std::optional<double> sm_share;
  std::optional<double> max_slowdown;
  bool serve = false;
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> host_memory_mib;
  bool own_cpus = false;
  std::string own_cores;
  std::string host_note;
  std::optional<std::int64_t> idle_since_ms;
  std::string checkpoint_signal;
  bool no_slots = false;
  int checkpoints = 0;
  std::optional<std::int64_t> leaves_by_ms;
  std::optional<std::int64_t> turn_ends_ms;
  std::optional<std::int64_t> begin_ms;
  std::vector<std::string> dependencies;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> notify;
  std::vector<NoticeView> notices;
  std::optional<task::ProgressReport> progress;

  // When the last attempt ended. Empty until then, and if the task was never launched.
  std::optional<std::int64_t> RanUntilMs() const {
    return attempt_ended_ms ? attempt_ended_ms : ended_ms;
  }

  static void VisitFields(auto& field, auto& task) {
    field("id", task.id, "Task number, from 1, never reused.");
    field("name", task.name, "Name.");
    field("user", task.user, "Submitter's user name (the kernel reports the UID).");
    field("uid", task.uid, "Submitter's UID.");
    field("state", task.state, "State of the task.",
          {.words = "submitted,estimating,queued,launching,running,stopping,succeeded,failed,"
                    "cancelled,timed_out,out_of_memory,lost,rejected"});
    field("reason", task.reason,
          "Why the task is waiting or how it ended, as a word such as GpuMemory; empty if there is "
          "no reason.");
    field("reason_text", task.reason_text, "The reason as one sentence with numbers.");
    field("gpus", task.gpus, "Number of GPUs requested; 0 if the task uses only cores and memory.",
          {.low = 0});
    field("gpu_type", task.gpu_type,
          "Text that the GPU's model name must contain; empty if any GPU will do.");
    field("gpu_memory_min_mib", task.gpu_memory_min_mib, "Minimum total memory of each GPU.");
    field("on_gpus", task.on_gpus, "GPUs that the task may run on; empty if it may run on any.");
    field("not_on_gpus", task.not_on_gpus, "GPUs that the task must not run on.");
    field("linked_gpus", task.linked_gpus,
          "Whether the task's GPUs must be connected to each other by NVLink.");
    field("gpu_indices", task.gpu_indices, "Indices of the current or last GPUs.");
    field("gpu_uuids", task.gpu_uuids, "UUIDs of the current or last GPUs.");
    field("claim_mib", task.claim_mib, "GPU memory promised per GPU; 0 without an estimate.");
    field("others_claim_mib", task.others_claim_mib,
          "GPU memory promised on every GPU but the first; null if the same as on the first.");
    field("predicted_mib", task.predicted_mib,
          "Most likely peak memory per GPU, as predicted; null if there is no estimate.");
    field("bound_mib", task.bound_mib,
          "Upper bound of the estimate, meant to hold for the share of tasks set by "
          "estimate.coverage; at most the largest GPU's memory.");
    field("estimate_method", task.estimate_method,
          "Estimator: given, rad, structural, history ...; empty if there is no estimate.");
    field("estimate_remarks", task.estimate_remarks,
          "Doubts about the estimate, or why there is none; empty in lists.");
    field(
        "observed_mib", task.observed_mib,
        "Current memory usage on the task's fullest GPU; null if not running or not yet measured.");
    field("over_promise_mib", task.over_promise_mib,
          "Memory used on one GPU beyond the task's promise and margin; null if the task stays "
          "within both.");
    field("wrong_gpus", task.wrong_gpus,
          "GPUs that the task's processes use even though they are not assigned to it.");
    field("peak_mib", task.peak_mib, "Peak memory usage on any one GPU, over all attempts.");
    field("exclusive", task.exclusive, "Whether the task has its GPUs to itself.");
    field("priority", task.priority, "Tasks with a higher value start first.");
    field("attempt", task.attempt,
          "Number of the current or last attempt, from 1; 0 if never started.", {.low = 0});
    field("ooms", task.ooms, "Number of times the task ran out of GPU memory.", {.low = 0});
    field("queue", task.queue, "The queue that the task belongs to.", {.words = "main,recovery"});
    field("submitted_ms", task.submitted_ms, "When the task was accepted (ms since the epoch).");
    field("waiting_since_ms", task.waiting_since_ms,
          "When the waiting task was submitted or requeued; null if the task is not waiting.");
    field("latest_start_ms", task.latest_start_ms,
          "Latest start according to the time limits of all tasks ahead of it, provided that no "
          "other task goes first and no GPU fails or is closed; null if unknown.");
    field("likely_start_ms", task.likely_start_ms,
          "Likely start, predicted from earlier run times, or from time limits if there are none; "
          "null if unknown.");
    field("first_start_ms", task.first_start_ms,
          "When the scheduler first decided to launch the task.");
    field("launched_ms", task.launched_ms,
          "When the scheduler decided to launch the current or last attempt; null if it was not "
          "launched.");
    field("attempt_ended_ms", task.attempt_ended_ms,
          "When the last attempt ended, if the task has waited since; otherwise null.");
    field("ended_ms", task.ended_ms, "When the task reached a final state.");
    field("time_limit_s", task.time_limit_s, "Run time after which the task is stopped.");
    field("exit_code", task.exit_code, "Exit status of the last attempt, once it has ended.");
    field("signal", task.signal, "Signal that killed the last attempt.");
    field(
        "exit_detail", task.exit_detail,
        "The line that explains how the last attempt ended, such as the framework's own message.");
    field("placement_reason", task.placement_reason, "Why these GPUs were chosen.");
    field("stdout_path", task.stdout_path, "File that receives the task's standard output.");
    field("stderr_path", task.stderr_path,
          "File that receives the task's standard error; the same as stdout_path if both go to one "
          "file.");
    field("workdir", task.workdir, "Working directory.");
    field("command", task.command, "argv, or the script's path and arguments.");
    field("array_id", task.array_id, "Number of the first task in the task's array.");
    field("array_index", task.array_index, "Index of the task in its array.");
    field("pid", task.pid, "Process id while the task is running.");
    field("comment", task.comment, "A one-line note.");
    field("container", task.container, "Container image that the task runs in; empty if none.");
    field("origin", task.origin,
          "What starts the task's process: lease (another program, see /v1/leases) or slurm (a "
          "Slurm job); empty if the daemon does.",
          {.words = ",lease,slurm"});
    field("account", task.account, "Account charged for the task's GPU usage; empty if none.");
    field("qos", task.qos,
          "Class of service: interactive, normal, background, or another configured class.");
    field("sharing", task.sharing,
          "How the task's processes share the GPU: alone, streams (time-sliced by the driver), mps "
          "(through an MPS server), mig (a MIG instance); empty if not started yet.",
          {.words = ",alone,streams,mps,mig"});
    field(
        "memory_limit_mib", task.memory_limit_mib,
        "GPU memory limit for each of the task's processes, enforced by MPS; 0 if there is none.");
    field("group_limit_mib", task.group_limit_mib,
          "Limit on the memory that all of the task's processes together may use on each GPU, "
          "enforced by the kernel; 0 if there is none.",
          {.low = 0});
    field("thread_percent", task.thread_percent,
          "Enforced limit on the percentage of SMs that each of the task's processes may use; 0 "
          "if there is none.",
          {.low = 0});
    field("partition_sms", task.partition_sms,
          "Number of SMs in the task's partition, which no other client of its MPS server uses; 0 "
          "if it has no partition.",
          {.low = 0});
    field("sharing_note", task.sharing_note,
          "Why the task does not share GPUs as configured, or a note that all users share its MPS "
          "server.");
    field("sm_share", task.sm_share, "Maximum share of the SMs, as set by the submitter.");
    field("max_slowdown", task.max_slowdown,
          "Maximum slowdown, relative to running alone, that the submitter accepts.");
    field("serve", task.serve,
          "Whether the task is latency-sensitive; under MPS, its kernels then run before those of "
          "the user's other tasks.");
    field("cpus", task.cpus,
          "Number of cores reserved for the task once it starts; null if cores are not counted.");
    field("host_memory_mib", task.host_memory_mib,
          "Host memory reserved for the task once it starts; null if host memory is not counted.");
    field("own_cpus", task.own_cpus,
          "Whether the task's cores are dedicated, meaning that they do not change and no other "
          "task may use them.");
    field("own_cores", task.own_cores, "The task's dedicated cores, such as 0-3,8; empty if none.");
    field("host_note", task.host_note,
          "Which limits on the task's cores and memory are not enforced here, and why; empty if "
          "all are enforced.");
    field("idle_since_ms", task.idle_since_ms,
          "When the task stopped using its GPUs; null if it is using them.");
    field("checkpoint_signal", task.checkpoint_signal,
          "Signal, chosen by the submitter, that asks the task to checkpoint before it has to "
          "leave; empty means the server's default.");
    field("no_slots", task.no_slots, "Whether the task may keep running when its time slice ends.");
    field("checkpoints", task.checkpoints,
          "Number of times the task checkpointed on request and exited, to be resumed later.",
          {.low = 0});
    field("leaves_by_ms", task.leaves_by_ms,
          "Time at which a task asked to checkpoint will be stopped; null if it may continue.");
    field("turn_ends_ms", task.turn_ends_ms,
          "Time at which the running task's time slice ends if another task is waiting for its "
          "GPUs; null if it has no time slice.");
    field("begin_ms", task.begin_ms, "The task will not be started before this time.");
    field("dependencies", task.dependencies, "Dependencies: afterok:12, afterany:13 …");
    field("parameters", task.parameters, "The task's parameters in a sweep.");
    field("notify", task.notify,
          "Requested notifications: targets and events. Only the host of a URL is shown.");
    field("notices", task.notices,
          "Notices sent for the task, with their results; empty in lists.");
    field("progress", task.progress,
          "The task's progress, read from its output; null if the output shows no progress or the "
          "task is not running.");
  }
};

}  // namespace carma::api
