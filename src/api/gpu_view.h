// The API's views of a GPU: its current state, and its history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"

namespace carma::api {

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

  static void VisitFields(auto& field, auto& task) {
    field("id", task.id, "Task number.");
    field("user", task.user, "Owner.");
    field("name", task.name, "Name.");
    field("claim_mib", task.claim_mib, "Memory claimed on this GPU when the task was placed.");
    field("promised_mib", task.promised_mib,
          "Memory currently promised to the task: the larger of claimed and measured memory, or "
          "the measured requirement once its memory has stopped growing (policy.plateau_after).");
    field("plateau", task.plateau, "Whether the task's memory has stopped growing.");
    field("observed_mib", task.observed_mib, "Memory measured on this GPU.");
    field("peak_mib", task.peak_mib, "Peak memory usage on any of the task's GPUs.");
    field("sharing", task.sharing,
          "How the task's processes share the GPU: alone, streams (time-sliced by the driver, no "
          "limits enforced), mps (through an MPS server), mig (a MIG instance); empty if not "
          "started yet.",
          {.words = ",alone,streams,mps,mig"});
    field("sm_active", task.sm_active,
          "Estimate of the task's share of the GPU's SM activity, 0..1; null if unknown.");
    field("sm_active_by", task.sm_active_by,
          "Source of sm_active: alone (measured; no other task uses the GPU), kernel-time "
          "(the driver's coarse per-process figure), equal (split evenly, because nothing "
          "distinguishes the tasks); empty if unknown.",
          {.words = ",alone,kernel-time,equal"});
    field("idle_since_ms", task.idle_since_ms,
          "When the task stopped using its GPUs; null if it is using them.");
    field("progress", task.progress,
          "Completed fraction of the run, 0..1, read from the task's output; null if unknown.",
          {.least = 0, .most = 1});
  }
};
// A process on the GPU that does not belong to any task.
struct ForeignView {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::optional<std::int64_t> used_mib;

  static void VisitFields(auto& field, auto& process) {
    field("pid", process.pid, "Process id.", {.low = 0});
    field("user", process.user, "User of the process; empty if hidden.");
    field("command", process.command, "Program name or arguments, shortened; empty if hidden.");
    field("used_mib", process.used_mib, "GPU memory usage; null if the driver does not report it.");
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
  std::optional<std::int64_t> leave_by_ms;
  std::optional<double> sm_active_p95;
  std::optional<double> sm_active_ewma;
  struct Metric {
    std::string name;
    double value = 0;
    std::string source;

    static void VisitFields(auto& field, auto& metric) {
      field("name", metric.name,
            "Name, as in recordings: sm_occupancy, dram_active, sm_clock_mhz …");
      field("value", metric.value, "Value: a fraction 0..1, bytes per second, or MHz.");
      field("source", metric.source, "Where the value comes from.", {.words = "nvml,gpm,dcgm"});
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

    static void VisitFields(auto& field, auto& reserved) {
      field("id", reserved.id, "Reservation number.");
      field("whom", reserved.whom, "Users, accounts or classes that may use the GPU, or nobody.");
      field("why", reserved.why, "Purpose of the reservation, in one line.");
      field("from_ms", reserved.from_ms, "When it begins.");
      field("to_ms", reserved.to_ms, "When it ends.");
      field("holds", reserved.holds, "Whether the reservation is in force now.");
    }
  };
  std::vector<Reserved> reserved;

  static void VisitFields(auto& field, auto& gpu) {
    field("index", gpu.index, "GPU index, in PCI order.", {.low = 0});
    field("uuid", gpu.uuid, "The device name that tasks get in CUDA_VISIBLE_DEVICES.");
    field("name", gpu.name, "Product name.");
    field("state", gpu.state,
          "idle: no task; mix: open to more tasks; alloc: held by an exclusive task; drng: closed, "
          "but with tasks still running; drain: closed and empty; down: not usable.",
          {.words = "idle,mix,alloc,drain,drng,down"});
    field("trouble", gpu.trouble, "Why the GPU is drained or down; empty if it is neither.");
    field("total_mib", gpu.total_mib, "Total memory of the device.");
    field("reserved_mib", gpu.reserved_mib, "Memory reserved by the driver.");
    field("used_mib", gpu.used_mib, "Measured memory usage of all processes.");
    field("claimed_mib", gpu.claimed_mib,
          "Memory that the GPU's tasks claimed when they were placed.");
    field("promised_mib", gpu.promised_mib,
          "Memory currently promised to the GPU's tasks (sum of their promised_mib).");
    field("foreign_mib", gpu.foreign_mib,
          "Measured memory usage of processes that CARMA did not start.");
    field("free_mib", gpu.free_mib, "Memory available for new claims.");
    field("sm_active", gpu.sm_active, "Mean SM activity over the window (monitor.window), 0..1.");
    field("sm_active_now", gpu.sm_active_now, "SM activity in the last sample, 0..1.");
    field("power_w", gpu.power_w, "Power draw.");
    field("energy_j", gpu.energy_j, "Energy used since the daemon started.");
    field("temperature_c", gpu.temperature_c, "Temperature.");
    field("sample_age_ms", gpu.sample_age_ms, "Age of the last sample; null if there is none yet.");
    field("foreign_processes", gpu.foreign_processes,
          "Number of processes that CARMA did not start.", {.low = 0});
    field("tasks", gpu.tasks, "Tasks placed on the GPU.");
    field("foreign", gpu.foreign, "Processes that do not belong to any task.");
    field("unattributed_mib", gpu.unattributed_mib,
          "Memory not used by any listed process: the driver's own memory, contexts of exited "
          "processes, other containers; null if unknown.");
    field("alerts", gpu.alerts, "Problems that an administrator should check, one sentence each.");
    field("drained_by_rule", gpu.drained_by_rule,
          "Whether the health rules, rather than an administrator, closed the GPU.");
    field("leave_by_ms", gpu.leave_by_ms,
          "Time by which all tasks must leave the GPU (ms since the epoch).");
    field("sm_active_p95", gpu.sm_active_p95,
          "95th percentile of the SM activity over the window.");
    field("sm_active_ewma", gpu.sm_active_ewma,
          "Exponentially weighted average of the SM activity; reacts to changes faster than the "
          "mean.");
    field("metrics", gpu.metrics, "The last reading, with the source of each value.");
    field("activity_source", gpu.activity_source, "Source of the GPU's SM activity.",
          {.words = ",none,gpm,dcgm"});
    field("activity_rule", gpu.activity_rule,
          "Rule for sharing the GPU while its SM activity is unknown; empty if it is known.");
    field("mig_profile", gpu.mig_profile, "MIG profile of a MIG instance; empty for a whole GPU.");
    field("mig_parent", gpu.mig_parent, "UUID of the GPU that a MIG instance belongs to.");
    field("linked_to", gpu.linked_to, "GPUs connected to this one by NVLink.");
    field("pace", gpu.pace, "Speed of tasks on this GPU, relative to the server's fastest GPU.");
    field("reserved", gpu.reserved, "The GPU's current and next reservations.");
  }
};

// The history of a GPU, oldest reading first.
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

    static void VisitFields(auto& field, auto& point) {
      field("from_ms", point.from_ms, "Start of the span.");
      field("to_ms", point.to_ms, "End of the span.");
      field("sm_active", point.sm_active, "Mean SM activity, 0..1; null if not reported.");
      field("sm_peak", point.sm_peak, "Highest SM activity in any reading; null if unknown.");
      field("dram_active", point.dram_active, "Mean memory activity, 0..1.");
      field("used_mib", point.used_mib, "Mean memory usage of all processes.");
      field("used_peak_mib", point.used_peak_mib, "Peak memory usage; null if unknown.");
      field("power_w", point.power_w, "Mean power draw, in watts.");
      field("tasks", point.tasks, "Maximum number of tasks on the GPU at once.", {.low = 0});
    }
  };
  std::vector<Point> points;

  static void VisitFields(auto& field, auto& history) {
    field("index", history.index, "GPU index, in PCI order.", {.low = 0});
    field("uuid", history.uuid, "UUID.");
    field("name", history.name, "Product name.");
    field("points", history.points, "Oldest first; spans without readings are omitted.");
  }
};

}  // namespace carma::api
