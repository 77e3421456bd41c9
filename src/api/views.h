// The JSON objects of the API, as structs: what the daemon answers and the commands print. The
// texts that describe their fields are served too (api/openapi.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "task/progress/report.h"

namespace carma::api {

// A notification about a task and its result.
struct NoticeView {
  std::string event;
  std::string target;
  std::string state;
  std::int64_t made_ms = 0;
  int tries = 0;
  std::string text;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& notice) {
    field("event", notice.event, "The event: start, end, fail, oom, requeue.");
    field("target", notice.target, "Where the notice goes; for a URL only the server.");
    field("state", notice.state, "State of the notice.", {.words = "waiting,sent,failed,dropped"});
    field("made_ms", notice.made_ms, "When the event happened.");
    field("tries", notice.tries, "Number of tries.", {.low = 0});
    field("text", notice.text, "Why the last try failed, or empty.");
  }
};

// Times are milliseconds since the epoch, spans seconds, memory MiB, fractions 0..1.
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
  std::string sharing_note;
  std::optional<double> sm_share;
  std::optional<double> max_slowdown;
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

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& task) {
    field("id", task.id, "Task number, from 1, never reused.");
    field("name", task.name, "Name.");
    field("user", task.user, "Submitter's user name, from the kernel.");
    field("uid", task.uid, "Submitter's user id.");
    field("state", task.state, "State of the task.",
          {.words = "submitted,estimating,queued,launching,running,stopping,succeeded,failed,"
                    "cancelled,timed_out,out_of_memory,lost,rejected"});
    field("reason", task.reason,
          "Why it waits or how it ended, a word such as GpuMemory; empty: none.");
    field("reason_text", task.reason_text, "The same as one sentence with numbers.");
    field("gpus", task.gpus, "GPUs wanted; 0: cores and memory of the server only.", {.low = 0});
    field("gpu_type", task.gpu_type, "Only GPUs with this in their model name; empty: any.");
    field("gpu_memory_min_mib", task.gpu_memory_min_mib,
          "Only GPUs with at least this much memory in all.");
    field("on_gpus", task.on_gpus, "Only these GPUs; empty: any.");
    field("not_on_gpus", task.not_on_gpus, "Not on these GPUs.");
    field("linked_gpus", task.linked_gpus,
          "Only GPUs that are connected with each other (NVLink).");
    field("gpu_indices", task.gpu_indices, "Current or last GPUs, as shown on screen.");
    field("gpu_uuids", task.gpu_uuids, "Current or last GPUs.");
    field("claim_mib", task.claim_mib,
          "Promised: GPU memory booked per GPU; 0 without an estimate.");
    field("predicted_mib", task.predicted_mib,
          "Predicted: most likely peak per GPU; null: no estimate.");
    field("bound_mib", task.bound_mib,
          "The most that is promised for it: covers a share of the tasks (estimate.coverage), at "
          "most the largest GPU.");
    field("estimate_method", task.estimate_method,
          "How it was predicted: given, rad, structural, history ...; empty: it was not.");
    field("estimate_remarks", task.estimate_remarks,
          "What is doubtful about the estimate, or why there is none; empty in lists.");
    field("observed_mib", task.observed_mib,
          "Measured now on its fullest GPU; null: not running or not seen yet.");
    field("over_promise_mib", task.over_promise_mib,
          "How much more it uses than promise and margin on one GPU; null: it stays within them.");
    field("wrong_gpus", task.wrong_gpus,
          "GPUs where it has processes without having been given them.");
    field("peak_mib", task.peak_mib, "Measured: highest on one GPU over all attempts.");
    field("exclusive", task.exclusive, "No other task may use its GPUs.");
    field("priority", task.priority, "Tasks with a higher value start first.");
    field("attempt", task.attempt, "Number of the current or last start, from 1; 0: never started.",
          {.low = 0});
    field("ooms", task.ooms, "How often it ran out of GPU memory.", {.low = 0});
    field("queue", task.queue, "The queue it belongs to.", {.words = "main,recovery"});
    field("submitted_ms", task.submitted_ms, "When it was accepted (ms since the epoch).");
    field("waiting_since_ms", task.waiting_since_ms,
          "When it was submitted or sent back to its queue; null: it does not wait.");
    field("latest_start_ms", task.latest_start_ms,
          "Its latest start by the time limits of all tasks before it, if no further task goes "
          "before it and no GPU fails or is closed; null: not known.");
    field("likely_start_ms", task.likely_start_ms,
          "Its likely start, by earlier run times, otherwise by time limits; null: not known.");
    field("first_start_ms", task.first_start_ms, "First launch decision.");
    field("launched_ms", task.launched_ms, "Launch decision of the current or last attempt.");
    field("ended_ms", task.ended_ms, "When it reached a final state.");
    field("time_limit_s", task.time_limit_s, "Stopped after running this long.");
    field("exit_code", task.exit_code, "Exit status of the last attempt, once it ended.");
    field("signal", task.signal, "Signal that ended the last attempt.");
    field("exit_detail", task.exit_detail,
          "The line that explains its end, such as the framework's own message.");
    field("placement_reason", task.placement_reason, "Why these GPUs were chosen.");
    field("stdout_path", task.stdout_path, "File of its standard output.");
    field("stderr_path", task.stderr_path,
          "File of its standard error; the same as stdout_path if they share a file.");
    field("workdir", task.workdir, "Working directory.");
    field("command", task.command, "argv, or the script's path and arguments.");
    field("array_id", task.array_id, "First task of its array.");
    field("array_index", task.array_index, "Index in its array.");
    field("pid", task.pid, "Process id while it runs.");
    field("comment", task.comment, "One line for people.");
    field("container", task.container, "Image in which it runs; empty: none.");
    field("origin", task.origin,
          "Who starts its process: empty: the daemon; lease: another program (/v1/leases); slurm: "
          "a Slurm job.",
          {.words = ",lease,slurm"});
    field("account", task.account, "Account for its use of the GPUs, or empty.");
    field("qos", task.qos, "Its class: interactive, normal, background, or another one.");
    field("sharing", task.sharing,
          "How its processes share the GPU: alone, streams (time slices), mps "
          "(through an MPS server), mig (an instance of a divided GPU); empty: not started yet.",
          {.words = ",alone,streams,mps,mig"});
    field("memory_limit_mib", task.memory_limit_mib,
          "GPU memory that each of its processes may take, enforced by MPS; 0: no limit.");
    field(
        "group_limit_mib", task.group_limit_mib,
        "GPU memory that all its processes together may take on each GPU, enforced by the kernel; "
        "0: no limit.",
        {.low = 0});
    field("thread_percent", task.thread_percent,
          "Percent of the SMs that each of its processes may use, enforced; 0: no limit.",
          {.low = 0});
    field("sharing_note", task.sharing_note,
          "Why it does not share as configured; empty: it does.");
    field("sm_share", task.sm_share, "At most this share of the SMs, as its submitter asked.");
    field("max_slowdown", task.max_slowdown,
          "Its longest run time as a multiple of that alone, as its submitter asked.");
    field("cpus", task.cpus,
          "Cores of the server that are kept for it, once it starts; null: none are counted.");
    field("host_memory_mib", task.host_memory_mib,
          "Memory of the server, not of its GPUs, that is kept for it, once it starts; null: none "
          "is counted.");
    field("own_cpus", task.own_cpus, "Its cores stay the same, and no other task may use them.");
    field("own_cores", task.own_cores, "The numbers of those cores: 0-3,8; empty: none.");
    field("host_note", task.host_note,
          "Which of its cores and memory are not enforced here, and why; empty: all are.");
    field("idle_since_ms", task.idle_since_ms,
          "Since when it holds GPUs without using them; null: it uses them.");
    field("checkpoint_signal", task.checkpoint_signal,
          "Signal that asks it to save before it has to make room, chosen by its submitter; empty: "
          "the server's.");
    field("no_slots", task.no_slots, "Not ended at the end of its time slot.");
    field("checkpoints", task.checkpoints,
          "How often it saved on request and ended, to continue later.", {.low = 0});
    field("leaves_by_ms", task.leaves_by_ms,
          "It was asked to save and will be ended at this time; null: it may stay.");
    field("turn_ends_ms", task.turn_ends_ms,
          "While it runs: when its time slot ends, if another task waits for its place; null: it "
          "has no time slot.");
    field("begin_ms", task.begin_ms, "Not started before this time.");
    field("dependencies", task.dependencies, "What it waits for: afterok:12, afterany:13 …");
    field("parameters", task.parameters, "Its values in a sweep.");
    field("notify", task.notify,
          "Who gets notices of which events. Of a URL, only the server is shown.");
    field("notices", task.notices, "Its notices and their results; empty in lists.");
    field("progress", task.progress,
          "Its progress, read from its output; null: the output shows none, or it does not run.");
  }
};

struct GpuTaskView {
  std::uint64_t id = 0;
  std::string user;
  std::string name;
  std::int64_t claim_mib = 0;
  std::int64_t promised_mib = 0;
  bool plateau = false;
  std::int64_t observed_mib = 0;
  std::int64_t peak_mib = 0;
  std::string sharing;
  std::optional<double> sm_active;
  std::string sm_active_by;
  std::optional<std::int64_t> idle_since_ms;
  std::optional<double> progress;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& task) {
    field("id", task.id, "Task number.");
    field("user", task.user, "Owner.");
    field("name", task.name, "Name.");
    field("claim_mib", task.claim_mib, "Booked on this GPU when it was placed.");
    field("promised_mib", task.promised_mib,
          "Kept for it now: the larger of its claim and its measured memory, or its measured need "
          "once its memory no longer grows (policy.plateau_after).");
    field("plateau", task.plateau, "Its memory no longer grows.");
    field("observed_mib", task.observed_mib, "Measured on this GPU.");
    field("peak_mib", task.peak_mib, "Measured: highest on any of its GPUs.");
    field("sharing", task.sharing,
          "How its processes share the GPU: alone, streams (time slices, nothing enforced), mps "
          "(through an MPS server), mig (an instance of a divided GPU); empty: not started yet.",
          {.words = ",alone,streams,mps,mig"});
    field("sm_active", task.sm_active,
          "Estimate of its part of the GPU's SM activity, 0..1; null: not known.");
    field("sm_active_by", task.sm_active_by,
          "Source of that estimate: alone (measured: no other task is there), kernel-time (the "
          "driver's coarse share of each process), equal (split evenly: nothing distinguishes "
          "them); empty: not known.",
          {.words = ",alone,kernel-time,equal"});
    field("idle_since_ms", task.idle_since_ms,
          "Since when it holds GPUs without using them; null: it uses them.");
    field("progress", task.progress,
          "How much of the whole run is done, 0..1, read from its output; null: not known.",
          {.least = 0, .most = 1});
  }
};
// A process on the GPU that belongs to no task.
struct ForeignView {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::optional<std::int64_t> used_mib;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& process) {
    field("pid", process.pid, "Process.", {.low = 0});
    field("user", process.user, "Its user; empty: hidden.");
    field("command", process.command, "Its name or arguments, shortened; empty: hidden.");
    field("used_mib", process.used_mib, "GPU memory; null: the driver does not report it.");
  }
};
struct GpuView {
  std::int64_t index = 0;
  std::string uuid;
  std::string name;
  std::string state;
  std::string trouble;
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;
  std::int64_t claimed_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t foreign_mib = 0;
  std::int64_t free_mib = 0;
  std::optional<double> sm_active;
  std::optional<double> sm_active_now;
  std::optional<double> power_w;
  std::optional<double> energy_j;
  std::optional<double> temperature_c;
  std::optional<std::int64_t> sample_age_ms;
  int foreign_processes = 0;
  std::vector<GpuTaskView> tasks;
  std::vector<ForeignView> foreign;
  std::optional<std::int64_t> unattributed_mib;
  std::vector<std::string> alerts;
  bool drained_by_rule = false;
  std::optional<double> sm_active_p95;
  std::optional<double> sm_active_ewma;
  struct Metric {
    std::string name;
    double value = 0;
    std::string source;

    template <class Visitor, class Self>
    static void VisitFields(Visitor& field, Self& metric) {
      field("name", metric.name, "As in recordings: sm_occupancy, dram_active, sm_clock_mhz …");
      field("value", metric.value, "Fractions 0..1, bytes per second, MHz.");
      field("source", metric.source, "The source of the value.", {.words = "nvml,gpm,dcgm"});
    }
  };
  std::vector<Metric> metrics;
  std::string activity_source;
  std::string activity_rule;
  std::string mig_profile;
  std::string mig_parent;
  std::vector<std::int64_t> linked_to;
  double pace = 1;
  struct Reserved {
    std::uint64_t id = 0;
    std::string whom;
    std::string why;
    std::int64_t from_ms = 0;
    std::int64_t to_ms = 0;
    bool holds = false;

    template <class Visitor, class Self>
    static void VisitFields(Visitor& field, Self& reserved) {
      field("id", reserved.id, "Number of the reservation.");
      field("whom", reserved.whom, "The users, accounts or classes that it is for, or nobody.");
      field("why", reserved.why, "One line for people.");
      field("from_ms", reserved.from_ms, "When it begins.");
      field("to_ms", reserved.to_ms, "When it ends.");
      field("holds", reserved.holds, "It is in force now.");
    }
  };
  std::vector<Reserved> reserved;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& gpu) {
    field("index", gpu.index, "Position in PCI order, for the screen.", {.low = 0});
    field("uuid", gpu.uuid, "The name that tasks get in CUDA_VISIBLE_DEVICES.");
    field("name", gpu.name, "Product name.");
    field("state", gpu.state,
          "idle: nothing on it; mix: shared; alloc: held by a task that keeps others out; drng: "
          "closed, tasks still on it; drain: closed and empty; down: not usable.",
          {.words = "idle,mix,alloc,drain,drng,down"});
    field("trouble", gpu.trouble, "Why it is drained or down; empty: it is neither.");
    field("total_mib", gpu.total_mib, "Memory of the device.");
    field("reserved_mib", gpu.reserved_mib, "Held by the driver.");
    field("used_mib", gpu.used_mib, "Measured: used by all processes.");
    field("claimed_mib", gpu.claimed_mib, "Booked by its tasks when they were placed.");
    field("promised_mib", gpu.promised_mib, "Kept for its tasks now (their promised_mib).");
    field("foreign_mib", gpu.foreign_mib, "Measured: used by processes that CARMA did not start.");
    field("free_mib", gpu.free_mib, "Free for a new claim.");
    field("sm_active", gpu.sm_active, "SM activity, mean of the window, 0..1.");
    field("sm_active_now", gpu.sm_active_now, "SM activity of the last sample, 0..1.");
    field("power_w", gpu.power_w, "Power draw.");
    field("energy_j", gpu.energy_j, "Energy since the daemon started.");
    field("temperature_c", gpu.temperature_c, "Temperature.");
    field("sample_age_ms", gpu.sample_age_ms, "Age of the last sample; null: none yet.");
    field("foreign_processes", gpu.foreign_processes, "Processes that CARMA did not start.",
          {.low = 0});
    field("tasks", gpu.tasks, "Tasks placed on it.");
    field("foreign", gpu.foreign, "Processes that belong to no task.");
    field("unattributed_mib", gpu.unattributed_mib,
          "Memory in use by no process that the driver lists: its own needs, contexts of ended "
          "processes, other containers; null: not known.");
    field("alerts", gpu.alerts, "Problems that an administrator should check, one sentence each.");
    field("drained_by_rule", gpu.drained_by_rule, "The health rules closed it, not a person.");
    field("sm_active_p95", gpu.sm_active_p95, "SM activity, 95th percentile of the window.");
    field("sm_active_ewma", gpu.sm_active_ewma,
          "SM activity, exponentially weighted: follows faster than the mean.");
    field("metrics", gpu.metrics, "The last reading, with the source of each value.");
    field("activity_source", gpu.activity_source, "The source of its SM activity.",
          {.words = ",none,gpm,dcgm"});
    field("activity_rule", gpu.activity_rule,
          "The rule by which tasks share it if its SM activity is not known; otherwise empty.");
    field("mig_profile", gpu.mig_profile,
          "Profile of an instance of a divided GPU; empty: a whole GPU.");
    field("mig_parent", gpu.mig_parent, "UUID of the GPU to which the instance belongs.");
    field("linked_to", gpu.linked_to, "GPUs to which it is connected by NVLink.");
    field("pace", gpu.pace, "Speed of tasks there, relative to the server's fastest GPU.");
    field("reserved", gpu.reserved, "The present reservation, and the next one.");
  }
};

// A reservation of GPUs for a period.
struct ReservationView {
  std::uint64_t id = 0;
  std::string made_by;
  std::vector<std::string> users;
  std::vector<std::string> accounts;
  std::vector<std::string> classes;
  std::vector<std::string> gpus;
  std::string gpu_type;
  std::optional<int> count;
  std::int64_t from_ms = 0;
  double length_s = 0;
  std::string repeat;
  std::optional<std::int64_t> until_ms;
  std::string why;
  std::optional<std::int64_t> next_from_ms;
  std::optional<std::int64_t> next_to_ms;
  bool holds = false;
  std::vector<std::int64_t> gpu_indices;
  std::vector<std::uint64_t> others;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& reservation) {
    field("id", reservation.id, "Its number, from 1, never reused.");
    field("made_by", reservation.made_by, "User who made it.");
    field("users", reservation.users, "Tasks of these users may run there then.");
    field("accounts", reservation.accounts, "So may those of these accounts.");
    field("classes", reservation.classes, "And of these classes. All three empty: no tasks.");
    field("gpus", reservation.gpus, "UUIDs of its GPUs; empty: all.");
    field("gpu_type", reservation.gpu_type, "Only GPUs of this model; empty: any.");
    field("count", reservation.count, "How many of them; null: all.");
    field("from_ms", reservation.from_ms, "When it begins the first time.");
    field("length_s", reservation.length_s, "How long it lasts.");
    field("repeat", reservation.repeat, "How often it begins again, by the server's local time.",
          {.words = "once,daily,weekdays,weekly"});
    field("until_ms", reservation.until_ms, "No repetition begins after that; null: for ever.");
    field("why", reservation.why, "One line for people.");
    field("next_from_ms", reservation.next_from_ms, "Its present or next start; null: it is over.");
    field("next_to_ms", reservation.next_to_ms, "When that period ends.");
    field("holds", reservation.holds, "It is in force now.");
    field("gpu_indices", reservation.gpu_indices, "The GPUs that are kept in that period.");
    field("others", reservation.others,
          "Tasks of others that run there; they may end by themselves.");
  }
};

// The GPU over time, oldest first.
struct GpuHistoryView {
  std::int64_t index = 0;
  std::string uuid;
  std::string name;
  struct Point {
    std::int64_t from_ms = 0;
    std::int64_t to_ms = 0;
    std::optional<double> sm_active;
    std::optional<double> sm_peak;
    std::optional<double> dram_active;
    double used_mib = 0;
    std::optional<double> used_peak_mib;
    std::optional<double> power_w;
    int tasks = 0;

    template <class Visitor, class Self>
    static void VisitFields(Visitor& field, Self& point) {
      field("from_ms", point.from_ms, "Start of the span.");
      field("to_ms", point.to_ms, "Its end.");
      field("sm_active", point.sm_active, "SM activity, mean, 0..1; null: not reported.");
      field("sm_peak", point.sm_peak, "Highest SM activity of one reading; null: not known.");
      field("dram_active", point.dram_active, "Activity of the memory, mean, 0..1.");
      field("used_mib", point.used_mib, "Memory in use by all processes, mean.");
      field("used_peak_mib", point.used_peak_mib, "Its highest; null: not known.");
      field("power_w", point.power_w, "Power, mean.");
      field("tasks", point.tasks, "The largest number of tasks there at one time.", {.low = 0});
    }
  };
  std::vector<Point> points;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& history) {
    field("index", history.index, "Position in PCI order.", {.low = 0});
    field("uuid", history.uuid, "UUID.");
    field("name", history.name, "Product name.");
    field("points", history.points, "Oldest first; spans without any reading are left out.");
  }
};

struct VerdictView {
  std::int64_t gpu = 0;
  std::string fit;
  std::string reason;
  std::string reason_text;
  std::int64_t claimed_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t used_mib = 0;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& verdict) {
    field("gpu", verdict.gpu, "GPU index.", {.low = 0});
    field("fit", verdict.fit, "May the task start there?", {.words = "fits,not_now,never"});
    field("reason", verdict.reason, "A word such as GpuMemory; empty when it fits.");
    field("reason_text", verdict.reason_text, "One sentence with numbers.");
    field("claimed_mib", verdict.claimed_mib, "Booked by its tasks when they were placed.");
    field("promised_mib", verdict.promised_mib, "Kept for its tasks now.");
    field("used_mib", verdict.used_mib, "Measured: used by all processes in the last sample.");
  }
};
// The machine's verdict on a waiting task.
struct HostVerdictView {
  std::string fit;
  std::string reason;
  std::string reason_text;
  std::int64_t wants_cpus = 0;
  std::int64_t wants_memory_mib = 0;
  std::int64_t cpus = 0;
  std::int64_t free_cpus = 0;
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& verdict) {
    field("fit", verdict.fit, "Do cores and memory allow its start? Empty: they are not counted.",
          {.words = ",fits,not_now,never"});
    field("reason", verdict.reason, "Cpus or HostMemory; empty when it fits.");
    field("reason_text", verdict.reason_text, "One sentence with numbers.");
    field("wants_cpus", verdict.wants_cpus, "Cores that it would be promised; 0: none.");
    field("wants_memory_mib", verdict.wants_memory_mib, "Memory it would be promised; 0: none.");
    field("cpus", verdict.cpus, "Cores that tasks may be promised; 0: not counted.");
    field("free_cpus", verdict.free_cpus, "Those of them that are promised to no task.");
    field("memory_mib", verdict.memory_mib, "Memory that tasks may be promised; 0: not counted.");
    field("free_memory_mib", verdict.free_memory_mib, "The part of it promised to no task.");
  }
};
struct ExplainView {
  TaskView task;
  std::vector<VerdictView> gpus;
  HostVerdictView host;
  std::int64_t now_ms = 0;
  std::optional<std::uint64_t> ahead;
  std::string policy;
  std::string collocation;
  std::optional<std::int64_t> taught_mib;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& explain) {
    field("task", explain.task, "", {.required = true, .expected = "the task"});
    field("gpus", explain.gpus, "What each GPU says about a waiting task.");
    field("host", explain.host, "What the server itself says about a waiting task.");
    field("now_ms", explain.now_ms, "The daemon's clock.");
    field("ahead", explain.ahead, "Tasks before it in its queue; null: it does not wait.");
    field("policy", explain.policy, "The rules in one line.");
    field("collocation", explain.collocation, "What tasks on one GPU share, and what is enforced.");
    field("taught_mib", explain.taught_mib,
          "Measured need of tasks of its kind, which it requests instead of its estimate; null: "
          "none was measured.");
  }
};

// The server's knowledge for memory estimates, for a command that runs the estimators itself.
struct RunView {
  std::uint64_t task = 0;
  std::int64_t when_ms = 0;
  std::string gpu_type;
  std::string relation;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> length;
  std::string method;
  std::optional<std::int64_t> predicted_mib;
  std::optional<std::int64_t> promised_mib;
  std::int64_t measured_mib = 0;
  std::optional<std::int64_t> allocated_mib;
  bool ran_out = false;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& run) {
    field("task", run.task, "The task that ran.");
    field("when_ms", run.when_ms, "When it ended.");
    field("gpu_type", run.gpu_type, "GPU it ran on, as the driver names it.");
    field("relation", run.relation,
          "Equal for runs of one training with other batches or lengths; empty: unknown.");
    field("batch", run.batch, "Samples per GPU and step, if the task states it.", {.low = 0});
    field("length", run.length, "Tokens of a sample, if the task states it.", {.low = 0});
    field("method", run.method, "How it was predicted; empty: it was not.");
    field("predicted_mib", run.predicted_mib, "Most likely peak by that prediction.", {.low = 0});
    field("promised_mib", run.promised_mib, "Memory that it was promised.", {.low = 0});
    field("measured_mib", run.measured_mib, "Measured peak on one GPU.", {.low = 0});
    field("allocated_mib", run.allocated_mib,
          "The most that PyTorch's allocator gave out, if the task reported it.", {.low = 0});
    field("ran_out", run.ran_out, "It ended for lack of GPU memory: it needs more.");
  }
};
struct KnowledgeView {
  std::string method;
  double coverage = 0;
  std::string gpu_type;
  std::int64_t gpu_mib = 0;
  bool learns = false;
  // Calibration for the GPU type asked about (estimate/calibration.h).
  std::string taught_by;
  std::int64_t tasks = 0;
  double context_shift_mib = 0;
  std::vector<double> ratios;
  std::string calibration;  // which constant is in force, and why
  std::vector<RunView> runs;
  std::vector<RunView> kin_runs;
  // How a task of the signature computes on the most common GPU type (core/values/profile.h).
  std::optional<double> sm_active;
  std::optional<double> sensitivity, pressure;
  std::optional<std::int64_t> alone_ms;
  std::optional<double> iteration_ms;
  std::string profile_by;  // "carma profile", "runs"; empty: unknown

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& knowledge) {
    field("method", knowledge.method, "Estimator that the daemon uses.");
    field("coverage", knowledge.coverage,
          "Share of tasks that a promise should cover; 0: the most likely value is promised.",
          {.least = 0, .most = 1});
    field("gpu_type", knowledge.gpu_type, "Type of most GPUs of the server.");
    field("gpu_mib", knowledge.gpu_mib, "Memory for processes on the largest GPU.", {.low = 0});
    field("learns", knowledge.learns, "It learns from finished tasks (estimate.history).");
    field("taught_by", knowledge.taught_by, "GPU type of the calibration; empty: built-in values.");
    field("tasks", knowledge.tasks, "Different tasks behind the calibration.", {.low = 0});
    field("context_shift_mib", knowledge.context_shift_mib,
          "Added to the built-in constant of the structural formula.");
    field("ratios", knowledge.ratios, "Measured over predicted of those tasks, rising.");
    field("calibration", knowledge.calibration,
          "Which constant is in force and why: \"as shipped: …\" or \"learned from …\".");
    field("runs", knowledge.runs, "Earlier runs of the requested signature, newest first.");
    field("kin_runs", knowledge.kin_runs, "Earlier runs of the same program, newest first.");
    field("sm_active", knowledge.sm_active,
          "SM activity of a task of the signature, alone on the type of most GPUs.",
          {.least = 0, .most = 1});
    field("sensitivity", knowledge.sensitivity,
          "How much neighbours slow it down under MPS, measured by carma profile.", {.low = 0});
    field("pressure", knowledge.pressure,
          "How much it slows down neighbours, measured by carma profile.", {.low = 0});
    field("alone_ms", knowledge.alone_ms, "Run time of earlier runs without neighbours.",
          {.low = 0});
    field("iteration_ms", knowledge.iteration_ms, "One iteration alone, measured by carma profile.",
          {.low = 0});
    field("profile_by", knowledge.profile_by,
          "Who told the SM activity: \"carma profile\" or \"runs\"; empty: nobody.");
  }
};

struct EventView {
  std::int64_t sequence = 0;
  std::int64_t when_ms = 0;
  std::optional<std::uint64_t> task;
  std::string gpu_uuid;
  std::string what;
  std::string text;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& event) {
    field("sequence", event.sequence, "Rises with every event.");
    field("when_ms", event.when_ms, "ms since the epoch.");
    field("task", event.task, "Task it belongs to.");
    field("gpu_uuid", event.gpu_uuid, "GPU it belongs to, or empty.");
    field("what", event.what, "Name of the event.");
    field("text", event.text, "One line.");
  }
};

// Cores and memory of the server beside its GPUs.
struct HostView {
  std::int64_t cpus = 0;
  std::int64_t free_cpus = 0;
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;
  std::string enforced;
  std::string not_enforced;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& host) {
    field("cpus", host.cpus, "Cores that tasks may be promised; 0: not counted.");
    field("free_cpus", host.free_cpus, "Those of them that are promised to no task.");
    field("memory_mib", host.memory_mib, "Memory that tasks may be promised; 0: not counted.");
    field("free_memory_mib", host.free_memory_mib, "The part of it promised to no task.");
    field("enforced", host.enforced, "What the kernel enforces, in words; empty: nothing.");
    field("not_enforced", host.not_enforced, "What it does not enforce, and why; empty: nothing.");
  }
};

struct StatusView {
  std::string version;
  std::uint32_t uid = 0;
  std::int64_t pid = 0;
  std::int64_t now_ms = 0;
  double time_scale = 1;
  std::string policy;
  std::string collocation;
  std::string memory_limits;
  std::string no_memory_limits;
  std::string driver;
  HostView host;
  bool starting = false;
  std::string closed;
  std::optional<std::int64_t> leave_by_ms;
  std::optional<std::int64_t> gone_by_ms;
  std::vector<std::pair<std::string, std::int64_t>> task_counts;
  double longest_turn_s = 0;
  std::vector<std::string> troubles;
  std::string state_dir;
  std::int64_t config_read_ms = 0;
  std::vector<std::string> config_needs_restart;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& status) {
    field("version", status.version, "Version of the daemon.");
    field("uid", status.uid, "The only user that it serves; 0: it serves all.");
    field("pid", status.pid, "Its process id.", {.low = 0});
    field("now_ms", status.now_ms, "Its clock (simulated time on a simulated server).");
    field("time_scale", status.time_scale, "How fast that clock runs; 1 on real servers.",
          {.least = 0});
    field("policy", status.policy, "The rules in one line.");
    field("collocation", status.collocation, "How tasks share a GPU.");
    field("memory_limits", status.memory_limits,
          "What enforces the GPU memory promised to tasks: kernel (all processes of a task "
          "together), mps (each process), nobody; empty: not yet known.",
          {.words = ",kernel,mps,nobody"});
    field("no_memory_limits", status.no_memory_limits,
          "Why the kernel does not; empty: it does, or is being asked.");
    field("driver", status.driver, "ok, or what is wrong with the GPU driver.");
    field("host", status.host, "Cores and memory of the server, besides its GPUs.");
    field("starting", status.starting,
          "It has just started and looks for its GPUs and for MPS; submissions are refused until "
          "it has.");
    field("closed", status.closed,
          "Who closed the server until the next boot of its machine, and why; empty: it is open.");
    field("leave_by_ms", status.leave_by_ms,
          "When its tasks, which were asked to save, are ended, ms since the epoch.");
    field("gone_by_ms", status.gone_by_ms, "When the last of them is gone.");
    field("task_counts", status.task_counts, "Tasks by state.");
    field("longest_turn_s", status.longest_turn_s,
          "The longest time since its start that it was busy before it took the next request; real "
          "seconds, rounded to 0.05 s.",
          {.least = 0});
    field("troubles", status.troubles, "Problems that an administrator should check.");
    field("state_dir", status.state_dir, "Folder of its books.");
    field("config_read_ms", status.config_read_ms,
          "When the configuration in force was last read, ms since the epoch.");
    field("config_needs_restart", status.config_needs_restart,
          "Changed keys that take effect at the next start.");
  }
};

// The views above as JSON with every field; null: unknown.
template <base::HasFields View>
nlohmann::json ToJson(const View& view);
// Errors: kInvalid with JSON pointer. Unknown fields are ignored, because the daemon may be newer.
template <base::HasFields View>
base::Result<View> FromJson(const nlohmann::json& json);

}  // namespace carma::api
