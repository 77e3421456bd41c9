// The API's view of the server's status and of the events in its history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/views.h"

namespace carma::api {

struct EventView {
  std::int64_t sequence = 0;
  std::int64_t when_ms = 0;
  std::optional<std::uint64_t> task;
  std::string gpu_uuid;
  std::string what;
  std::string text;

  static void VisitFields(auto& field, auto& event) {
    field("sequence", event.sequence, "Event number, which increases with every event.");
    field("when_ms", event.when_ms, "When the event happened, ms since the epoch.");
    field("task", event.task, "Task that the event is about.");
    field("gpu_uuid", event.gpu_uuid, "GPU that the event is about, or empty.");
    field("what", event.what, "Name of the event.");
    field("text", event.text, "One-line description.");
  }
};

// The server's cores and host memory.
struct HostView {
  std::int64_t cpus = 0;
  std::int64_t free_cpus = 0;
  std::int64_t memory_mib = 0;
  std::int64_t free_memory_mib = 0;
  std::string enforced;
  std::string not_enforced;

  static void VisitFields(auto& field, auto& host) {
    field("cpus", host.cpus, "Cores that can be promised to tasks; 0 if cores are not counted.");
    field("free_cpus", host.free_cpus, "Cores not promised to any task.");
    field("memory_mib", host.memory_mib,
          "Memory that can be promised to tasks; 0 if memory is not counted.");
    field("free_memory_mib", host.free_memory_mib, "Memory not promised to any task.");
    field("enforced", host.enforced,
          "The limits that the kernel enforces, in words; empty if none.");
    field("not_enforced", host.not_enforced,
          "The limits that the kernel does not enforce, and why; empty if none.");
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
  std::string config_file;
  std::int64_t config_read_ms = 0;
  std::vector<std::string> config_needs_restart;

  static void VisitFields(auto& field, auto& status) {
    field("version", status.version, "Version of the daemon.");
    field("uid", status.uid,
          "UID of the only user that the daemon serves; 0 if it serves all users it allows.");
    field("pid", status.pid, "Process id of the daemon.", {.low = 0});
    field("now_ms", status.now_ms, "The daemon's clock (simulated time on a simulated server).");
    field("time_scale", status.time_scale,
          "Speed of the daemon's clock relative to real time; 1 on real servers.", {.least = 0});
    field("policy", status.policy, "The scheduling rules in one line.");
    field("collocation", status.collocation, "How tasks share a GPU.");
    field("memory_limits", status.memory_limits,
          "What limits tasks to their promised GPU memory: kernel (all processes of a task "
          "together), mps (each process) or nobody; empty if not yet known.",
          {.words = ",kernel,mps,nobody"});
    field("no_memory_limits", status.no_memory_limits,
          "Why the kernel does not limit tasks to their promised GPU memory; empty if it does or "
          "if this is not yet known.");
    field("driver", status.driver, "ok, or what is wrong with the GPU driver.");
    field("host", status.host, "The server's cores and host memory.");
    field("starting", status.starting,
          "Whether the daemon is still looking for its GPUs and MPS; until it is done, it refuses "
          "submissions.");
    field("closed", status.closed,
          "Who closed the server until the next reboot, and why; empty if the server is open.");
    field("leave_by_ms", status.leave_by_ms,
          "Time by which all tasks must leave (they have been asked to checkpoint); ms since the "
          "epoch.");
    field("gone_by_ms", status.gone_by_ms,
          "Time when the last task will be gone, even if it has to be killed; ms since the epoch.");
    field("task_counts", status.task_counts, "Tasks by state.");
    field("longest_turn_s", status.longest_turn_s,
          "Longest time the daemon has been too busy to serve requests since it started; real "
          "seconds, rounded to 0.05 s.",
          {.least = 0});
    field("troubles", status.troubles, "Problems that an administrator should check.");
    field("state_dir", status.state_dir, "The daemon's state folder.");
    field("config_file", status.config_file,
          "The configuration file that the daemon was started with (--config); empty if it reads "
          "the usual files.");
    field("config_read_ms", status.config_read_ms,
          "When the configuration in force was read, ms since the epoch.");
    field("config_needs_restart", status.config_needs_restart,
          "Changed keys that take effect only after a restart.");
  }
};

}  // namespace carma::api
