// The JSON objects of the API, as structs: what the daemon answers and the commands print.
// Described in api/openapi.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::api {

// Times are milliseconds since the epoch, spans seconds, memory MiB, fractions 0..1.
struct TaskView {
  std::uint64_t id = 0;
  std::string name;
  std::string user;
  std::uint32_t uid = 0;
  std::string state;   // core::TaskStateName
  std::string reason;  // core::ReasonName, empty if none
  std::string reason_text;
  int gpus = 1;
  std::vector<std::int64_t> gpu_indices;  // current or last placement
  std::vector<std::string> gpu_uuids;
  std::int64_t claim_mib = 0;                 // promised, per GPU
  std::optional<std::int64_t> predicted_mib;  // most likely peak, per GPU
  std::optional<std::int64_t> bound_mib;      // what is promised for it: at least predicted_mib
  std::string estimate_method;
  std::vector<std::string> estimate_remarks;  // warnings, or why there is none; not in lists
  std::optional<std::int64_t> observed_mib;   // now, highest GPU
  std::int64_t peak_mib = 0;                  // measured
  bool exclusive = false;
  std::int64_t priority = 0;
  int attempt = 0;
  int ooms = 0;
  std::string queue;  // "main", "recovery"
  std::int64_t submitted_ms = 0;
  std::optional<std::int64_t> first_start_ms;
  std::optional<std::int64_t> launched_ms;  // of the last attempt
  std::optional<std::int64_t> ended_ms;
  std::optional<double> time_limit_s;
  std::optional<int> exit_code;  // of the last attempt, once it ended
  std::optional<int> signal;
  std::string exit_detail;
  std::string placement_reason;  // why these GPUs
  std::string stdout_path;
  std::string stderr_path;  // same as stdout_path when together
  std::string workdir;
  std::vector<std::string> command;  // the script's path or argv
  std::optional<std::uint64_t> array_id;
  std::optional<std::int64_t> array_index;
  std::optional<std::uint64_t> pid;  // of the running process
  std::string comment;
  // How the current or last attempt shares its GPUs.
  std::string sharing;                        // core::SharingMethodName; empty: not started yet
  std::int64_t memory_limit_mib = 0;          // enforced on each process; 0: nothing is
  int thread_percent = 0;                     // of the SMs, enforced; 0: nothing is
  std::string sharing_note;                   // why it is not what the configuration asks for
  std::optional<double> sm_share;             // at most this share of the SMs, as the user asked
  std::optional<std::int64_t> idle_since_ms;  // holds GPUs and has not used them since
};

struct GpuTaskView {
  std::uint64_t id = 0;
  std::string user;
  std::string name;
  std::int64_t claim_mib = 0;
  std::int64_t observed_mib = 0;
  std::int64_t peak_mib = 0;  // measured on any of its GPUs
  std::string sharing;        // as in TaskView
  // Estimate of its part of the GPU's SM activity, and what it rests on: "alone" (measured: nobody
  // else is there), "kernel-time" (the driver's coarse share of each process), "equal" (split
  // evenly: nothing tells them apart). Empty: nothing is known.
  std::optional<double> sm_active;
  std::string sm_active_by;
  std::optional<std::int64_t> idle_since_ms;
};
// A process on the GPU that belongs to no task.
struct ForeignView {
  std::int64_t pid = 0;
  std::string user;
  std::string command;                   // its name or arguments, printable, shortened
  std::optional<std::int64_t> used_mib;  // empty: the driver does not tell
};
struct GpuView {
  std::int64_t index = 0;
  std::string uuid;
  std::string name;
  std::string state;    // idle, mix, alloc (exclusive task), drain, drng (draining), down
  std::string trouble;  // why drained or down
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;
  std::int64_t claimed_mib = 0;
  std::int64_t foreign_mib = 0;
  std::int64_t free_mib = 0;        // for a new claim
  std::optional<double> sm_active;  // window mean
  std::optional<double> sm_active_now;
  std::optional<double> power_w;
  std::optional<double> energy_j;
  std::optional<double> temperature_c;
  std::optional<std::int64_t> sample_age_ms;
  int foreign_processes = 0;
  std::vector<GpuTaskView> tasks;
  std::vector<ForeignView> foreign;
  // In use by no process that the driver lists: its own needs, contexts of the dead, other
  // containers. Empty: not known.
  std::optional<std::int64_t> unattributed_mib;
  std::vector<std::string> alerts;  // what somebody should look at, one sentence each
  bool drained_by_rule = false;
  std::optional<double> sm_active_p95;   // over the window
  std::optional<double> sm_active_ewma;  // follows faster than the mean
  // The last reading: names as in recordings ("sm_occupancy", "dram_active" …), fractions 0..1,
  // bytes/s, MHz, and who told it: "nvml", "gpm", "dcgm".
  struct Metric {
    std::string name;
    double value = 0;
    std::string source;
  };
  std::vector<Metric> metrics;
  std::string activity_source;  // "gpm", "dcgm", "none"
  std::string activity_rule;    // by which rule tasks share it without SM activity; else empty
  // An instance of a divided GPU.
  std::string mig_profile;  // empty: a whole GPU
  std::string mig_parent;   // UUID
};

// The GPU over time, oldest first.
struct GpuHistoryView {
  std::int64_t index = 0;
  std::string uuid;
  std::string name;
  struct Point {
    std::int64_t from_ms = 0;
    std::int64_t to_ms = 0;
    std::optional<double> sm_active;  // mean, as the others
    std::optional<double> sm_peak;
    std::optional<double> dram_active;
    double used_mib = 0;
    std::optional<double> used_peak_mib;
    std::optional<double> power_w;
    int tasks = 0;
  };
  std::vector<Point> points;
};

struct VerdictView {
  std::int64_t gpu = 0;
  std::string fit;  // fits, not_now, never
  std::string reason;
  std::string reason_text;
};
struct ExplainView {
  TaskView task;
  std::vector<VerdictView> gpus;
  std::optional<std::uint64_t> ahead;  // tasks before it in its queue
  std::string policy;                  // one line: mapper, cap, margin, floor, recovery
  std::string collocation;             // what the method shares and enforces
};

// What the server knows for memory estimates, for a command that asks the estimators itself.
struct RunView {
  std::uint64_t task = 0;
  std::int64_t when_ms = 0;
  std::string gpu_type;
  std::string method;
  std::optional<std::int64_t> predicted_mib;
  std::optional<std::int64_t> promised_mib;
  std::int64_t measured_mib = 0;
  bool ran_out = false;  // out of GPU memory: it needs more
};
struct KnowledgeView {
  std::string method;  // that the daemon uses
  double coverage = 0;
  std::string gpu_type;      // of most GPUs
  std::int64_t gpu_mib = 0;  // usable memory of the largest GPU
  bool learns = false;
  // Calibration for the GPU type asked about (estimate/calibration.h).
  std::string taught_by;
  std::int64_t tasks = 0;
  double context_shift_mib = 0;
  std::vector<double> ratios;
  std::vector<RunView> runs;      // of the signature asked about, newest first
  std::vector<RunView> kin_runs;  // of the same user's same program
};

struct EventView {
  std::int64_t sequence = 0;
  std::int64_t when_ms = 0;
  std::optional<std::uint64_t> task;
  std::string gpu_uuid;
  std::string what;
  std::string text;
};

struct StatusView {
  std::string version;
  std::uint32_t uid = 0;  // whom the daemon serves: 0 everybody
  std::int64_t pid = 0;
  std::int64_t now_ms = 0;  // the daemon's clock (simulated time on a simulated server)
  double time_scale = 1;
  std::string policy;
  std::string collocation;
  std::string driver;                                             // "ok", or what is wrong with it
  std::vector<std::pair<std::string, std::int64_t>> task_counts;  // by state
  std::vector<std::string> troubles;  // what an administrator should look at
};

nlohmann::json ToJson(const TaskView& view);
nlohmann::json ToJson(const GpuView& view);
nlohmann::json ToJson(const GpuHistoryView& view);
nlohmann::json ToJson(const ExplainView& view);
nlohmann::json ToJson(const KnowledgeView& view);
nlohmann::json ToJson(const EventView& view);
nlohmann::json ToJson(const StatusView& view);
// Errors: kInvalid with JSON pointer. Unknown fields are passed over: an older command talks to a
// newer daemon.
base::Result<TaskView> TaskViewFromJson(const nlohmann::json& json);
base::Result<GpuView> GpuViewFromJson(const nlohmann::json& json);
base::Result<GpuHistoryView> GpuHistoryViewFromJson(const nlohmann::json& json);
base::Result<ExplainView> ExplainViewFromJson(const nlohmann::json& json);
base::Result<KnowledgeView> KnowledgeViewFromJson(const nlohmann::json& json);
base::Result<EventView> EventViewFromJson(const nlohmann::json& json);
base::Result<StatusView> StatusViewFromJson(const nlohmann::json& json);

}  // namespace carma::api
