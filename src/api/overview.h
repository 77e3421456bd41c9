// The server at a glance, which the web page requests every second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/gpu_view.h"
#include "api/task_view.h"

namespace carma::api {

// A task as one row; the whole of it is TaskView.
struct TaskRow {
  std::uint64_t id = 0;
  std::string name;
  std::string user;
  std::string state;
  std::string reason;
  std::string reason_text;
  int gpus = 1;
  std::vector<std::int64_t> gpu_indices;
  std::int64_t claim_mib = 0;
  std::optional<std::int64_t> bound_mib;
  std::optional<std::int64_t> observed_mib;
  std::int64_t peak_mib = 0;
  std::optional<std::int64_t> over_promise_mib;
  std::vector<std::int64_t> wrong_gpus;
  bool exclusive = false;
  std::int64_t priority = 0;
  int attempt = 0;
  int ooms = 0;
  std::int64_t submitted_ms = 0;
  std::optional<std::int64_t> waiting_since_ms;
  std::optional<std::int64_t> turn;
  std::optional<std::int64_t> latest_start_ms;
  std::optional<std::int64_t> likely_start_ms;
  std::optional<std::int64_t> launched_ms;
  std::optional<std::int64_t> ended_ms;
  std::optional<double> time_limit_s;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string exit_detail;
  std::string sharing;
  std::optional<std::int64_t> leaves_by_ms;
  std::optional<std::int64_t> idle_since_ms;
  std::optional<std::uint64_t> array_id;
  std::optional<std::int64_t> array_index;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::optional<task::ProgressReport> progress;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& task) {
    field("id", task.id, "Task number.");
    field("name", task.name, "Name.");
    field("user", task.user, "Submitter's user name.");
    field("state", task.state, "State of the task, as in Task.");
    field("reason", task.reason, "Why it waits or how it ended, a word.");
    field("reason_text", task.reason_text, "The same as one sentence.");
    field("gpus", task.gpus, "GPUs wanted.", {.low = 0});
    field("gpu_indices", task.gpu_indices, "Current or last GPUs.");
    field("claim_mib", task.claim_mib, "Promised: GPU memory booked per GPU.");
    field("bound_mib", task.bound_mib, "The most that is promised for it; null: no estimate.");
    field("observed_mib", task.observed_mib, "Measured now on its fullest GPU.");
    field("peak_mib", task.peak_mib, "Measured: highest on one GPU.");
    field("over_promise_mib", task.over_promise_mib,
          "How much more memory it uses than it was promised.");
    field("wrong_gpus", task.wrong_gpus, "GPUs that it uses without having been given them.");
    field("exclusive", task.exclusive, "No other task may use its GPUs.");
    field("priority", task.priority, "Tasks with a higher value start first.");
    field("attempt", task.attempt, "Number of the current or last start.", {.low = 0});
    field("ooms", task.ooms, "How often it ran out of GPU memory.", {.low = 0});
    field("submitted_ms", task.submitted_ms, "When it was accepted (ms since the epoch).");
    field("waiting_since_ms", task.waiting_since_ms,
          "When it was submitted or sent back to its queue; null: it does not wait.");
    field("turn", task.turn,
          "Its place in the queue, from 1; tasks with GPUs and tasks without have separate queues. "
          "null: it runs, has ended, or waits for something other than its turn.");
    field("latest_start_ms", task.latest_start_ms,
          "By when it starts at the latest, as in Task, on the next minute.");
    field("likely_start_ms", task.likely_start_ms,
          "About when it starts, as in Task, on the next minute.");
    field("launched_ms", task.launched_ms, "Launch decision of the current or last attempt.");
    field("ended_ms", task.ended_ms, "When it reached a final state.");
    field("time_limit_s", task.time_limit_s, "Stopped after running this long.");
    field("exit_code", task.exit_code, "Exit status of the last attempt, once it ended.");
    field("signal", task.signal, "Signal that ended the last attempt.");
    field("exit_detail", task.exit_detail, "The line of its output that explains its end.");
    field("sharing", task.sharing, "How it shares its GPUs, as in Task.");
    field("leaves_by_ms", task.leaves_by_ms,
          "It was asked to save and to leave its GPUs by this time; null: it was not.");
    field("idle_since_ms", task.idle_since_ms, "Since when it holds GPUs without using them.");
    field("array_id", task.array_id, "First task of its array.");
    field("array_index", task.array_index, "Index in its array.");
    field("parameters", task.parameters, "Its values in a sweep.");
    field("progress", task.progress, "Its progress, as in Task.");
  }
};

struct GpuGlance {
  std::int64_t index = 0;
  std::string uuid;
  std::string name;
  std::string mig_profile;
  std::string state;
  std::string trouble;
  bool drained_by_rule = false;
  std::vector<std::string> alerts;
  std::vector<GpuView::Reserved> reserved;
  std::int64_t total_mib = 0;
  std::int64_t used_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t foreign_mib = 0;
  std::int64_t free_mib = 0;
  std::optional<double> sm_active;
  std::optional<double> sm_active_now;
  std::optional<double> power_w;
  std::optional<double> temperature_c;
  std::optional<std::int64_t> read_ms;
  std::vector<std::int64_t> recent;
  std::vector<GpuTaskView> tasks;
  std::vector<ForeignView> foreign;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& gpu) {
    field("index", gpu.index, "Position in PCI order.", {.low = 0});
    field("uuid", gpu.uuid, "The name that tasks get in CUDA_VISIBLE_DEVICES.");
    field("name", gpu.name, "Product name.");
    field("mig_profile", gpu.mig_profile, "Profile of an instance; empty: a whole GPU.");
    field("state", gpu.state, "As in Gpu.", {.words = "idle,mix,alloc,drain,drng,down"});
    field("trouble", gpu.trouble, "Why it is drained or down; empty: it is neither.");
    field("drained_by_rule", gpu.drained_by_rule, "The health rules closed it.");
    field("alerts", gpu.alerts, "Problems that an administrator should check, one sentence each.");
    field("reserved", gpu.reserved, "Present and future reservations on it, the next one first.");
    field("total_mib", gpu.total_mib, "Memory for processes, without the driver's own.");
    field("used_mib", gpu.used_mib, "Measured: used by all processes.");
    field("promised_mib", gpu.promised_mib, "Kept for its tasks now.");
    field("foreign_mib", gpu.foreign_mib, "Measured: used by processes that CARMA did not start.");
    field("free_mib", gpu.free_mib, "Free for a new claim.");
    field("sm_active", gpu.sm_active, "SM activity, mean of the window, 0..1, rounded to 0.01.");
    field("sm_active_now", gpu.sm_active_now, "The same for the last sample.");
    field("power_w", gpu.power_w, "Power draw, rounded to a watt.");
    field("temperature_c", gpu.temperature_c, "Temperature.");
    field("read_ms", gpu.read_ms, "When it was last read, if that was not in the last round.");
    field("recent", gpu.recent,
          "SM activity in percent over equal spans of the last 15 minutes, oldest first; -1: not "
          "known.");
    field("tasks", gpu.tasks, "Tasks placed on it.");
    field("foreign", gpu.foreign, "Processes that belong to no task.");
  }
};

struct OverviewView {
  std::string version;
  std::string host;
  std::int64_t now_ms = 0;
  double time_scale = 1;
  bool simulated = false;
  bool starting = false;
  std::string driver;
  std::string policy;
  std::string collocation;
  std::vector<std::string> troubles;
  std::vector<std::pair<std::string, std::int64_t>> task_counts;
  std::vector<GpuGlance> gpus;
  std::vector<TaskRow> running;
  std::vector<TaskRow> waiting;
  std::vector<TaskRow> ended;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& view) {
    field("version", view.version, "Version of the daemon.");
    field("host", view.host, "Name of the machine.");
    field("now_ms", view.now_ms,
          "The daemon's clock. Answers that differ only in this are the same: the clock advances "
          "by time_scale.");
    field("time_scale", view.time_scale, "How fast that clock runs; 1 on real servers.",
          {.least = 0});
    field("simulated", view.simulated, "The GPUs are a simulation.");
    field("starting", view.starting,
          "It still looks for its GPUs; until then the lists are empty.");
    field("driver", view.driver, "ok, or what is wrong with the GPU driver.");
    field("policy", view.policy, "The rules in one line.");
    field("collocation", view.collocation, "How tasks share a GPU.");
    field("troubles", view.troubles, "Problems that an administrator should check.");
    field("task_counts", view.task_counts, "Tasks by state.");
    field("gpus", view.gpus, "All GPUs.");
    field("running", view.running, "Tasks on GPUs, oldest first, at most 64.");
    field("waiting", view.waiting,
          "Waiting tasks, at most 40: those in the queue in their order, with GPUs before those "
          "without, then tasks that wait for anything else, oldest first.");
    field("ended", view.ended, "Those of the newest tasks that have ended, last end first.");
  }
};

// What one user has in the queue and on the GPUs.
struct UserView {
  std::uint32_t uid = 0;
  std::string user;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t gpus = 0;
  std::int64_t promised_mib = 0;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& view) {
    field("uid", view.uid, "User id.");
    field("user", view.user, "User name.");
    field("running", view.running, "Tasks on GPUs.", {.low = 0});
    field("waiting", view.waiting, "Tasks that wait.", {.low = 0});
    field("gpus", view.gpus, "GPUs that hold at least one of his tasks.", {.low = 0});
    field("promised_mib", view.promised_mib, "Claims of his tasks, over all their GPUs.");
  }
};

}  // namespace carma::api
