// The overview of the server that the web page requests every second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/gpu_view.h"
#include "api/task_view.h"
#include "base/text.h"

namespace carma::api {

// Visits only the fields with these names.
template <class Visitor>
struct SelectedFields {
  Visitor& visitor;
  const std::vector<std::string_view> names;
  template <class Value>
  void operator()(const char* name, Value& value, const char* text = "",
                  const base::FieldRule& rule = {}) {
    if (std::ranges::find(names, name) != names.end()) visitor(name, value, text, rule);
  }
};

// A task as a row of a table. Its JSON has only the fields that a row shows. Expected starts are
// rounded up to full minutes.
struct TaskRow : TaskView {
  static constexpr std::string_view kFields =
      "id,name,user,state,reason,reason_text,gpus,gpu_indices,claim_mib,bound_mib,observed_mib,"
      "peak_mib,over_promise_mib,wrong_gpus,exclusive,priority,attempt,ooms,submitted_ms,"
      "waiting_since_ms,latest_start_ms,likely_start_ms,launched_ms,attempt_ended_ms,"
      "ended_ms,time_limit_s,exit_code,signal,exit_detail,sharing,leaves_by_ms,idle_since_ms,"
      "array_id,array_index,parameters,progress";
  std::optional<std::int64_t> turn;

  static void VisitFields(auto& field, auto& task) {
    SelectedFields selected{field, base::Split(kFields, ',')};
    TaskView::VisitFields(selected, task);
    field("turn", task.turn,
          "Position in the queue, from 1; tasks that need no GPU have a queue of their own. Null "
          "if the task is running, has ended, or is waiting for something else.");
  }
};

// A GPU as shown on a card of the web page. Its JSON has only the fields that a card shows. SM
// activity is rounded to 0.01, power to a watt, and temperature to a degree.
struct GpuGlance : GpuView {
  static constexpr std::string_view kFields =
      "index,uuid,name,mig_profile,state,trouble,drained_by_rule,alerts,reserved,used_mib,"
      "promised_mib,foreign_mib,free_mib,sm_active,sm_active_now,power_w,temperature_c,tasks,"
      "foreign";
  std::optional<std::int64_t> read_ms;
  std::vector<std::int64_t> recent;

  static void VisitFields(auto& field, auto& gpu) {
    SelectedFields selected{field, base::Split(kFields, ',')};
    GpuView::VisitFields(selected, gpu);
    field("total_mib", gpu.total_mib, "Memory available to processes, excluding the driver's own.");
    field("read_ms", gpu.read_ms,
          "Time of the GPU's last sample, if the last round of sampling missed the GPU.");
    field("recent", gpu.recent,
          "SM activity in percent over equal spans of the last 15 minutes, oldest first; -1 if "
          "unknown.");
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

  static void VisitFields(auto& field, auto& view) {
    field("version", view.version, "Version of the daemon.");
    field("host", view.host, "Name of the machine.");
    field("now_ms", view.now_ms,
          "The daemon's clock, which clients can advance themselves at the rate time_scale. A "
          "response in which only this field has changed counts as unchanged.");
    field("time_scale", view.time_scale,
          "Speed of the daemon's clock relative to real time; 1 on real servers.", {.least = 0});
    field("simulated", view.simulated, "Whether the GPUs are simulated.");
    field("starting", view.starting,
          "Whether the daemon is still looking for its GPUs; until it is done, the lists are "
          "empty.");
    field("driver", view.driver, "ok, or what is wrong with the GPU driver.");
    field("policy", view.policy, "The scheduling rules in one line.");
    field("collocation", view.collocation, "How tasks share a GPU.");
    field("troubles", view.troubles, "Problems that an administrator should check.");
    field("task_counts", view.task_counts, "Tasks by state.");
    field("gpus", view.gpus, "All GPUs.");
    field("running", view.running, "Tasks on GPUs, oldest first; at most 64.");
    field("waiting", view.waiting,
          "Up to 40 waiting tasks: queued GPU tasks in queue order, then queued tasks that need "
          "no GPU, then tasks waiting for something else, oldest first.");
    field("ended", view.ended, "Recently submitted tasks that have finished, latest finish first.");
  }
};

// One user's waiting and running tasks.
struct UserView {
  std::uint32_t uid = 0;
  std::string user;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t gpus = 0;
  std::int64_t promised_mib = 0;

  static void VisitFields(auto& field, auto& view) {
    field("uid", view.uid, "User id.");
    field("user", view.user, "User name.");
    field("running", view.running, "Tasks on GPUs.", {.low = 0});
    field("waiting", view.waiting, "Waiting tasks.", {.low = 0});
    field("gpus", view.gpus, "GPUs with at least one of the user's tasks.", {.low = 0});
    field("promised_mib", view.promised_mib,
          "Memory claimed by the user's tasks, summed over all their GPUs.");
  }
};

}  // namespace carma::api
