// The API's explanation of why a task is waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "api/views.h"

namespace carma::api {

struct VerdictView {
  std::int64_t gpu = 0;
  std::string fit;
  std::string reason;
  std::string reason_text;
  std::int64_t claimed_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t used_mib = 0;

  static void VisitFields(auto& field, auto& verdict) {
    field("gpu", verdict.gpu, "GPU index.", {.low = 0});
    field("fit", verdict.fit, "Whether the task can start on the GPU.",
          {.words = "fits,not_now,never"});
    field("reason", verdict.reason,
          "The reason in one word, such as GpuMemory; empty if the task fits.");
    field("reason_text", verdict.reason_text, "The reason as one sentence with numbers.");
    field("claimed_mib", verdict.claimed_mib,
          "Memory that the GPU's tasks claimed when they were placed.");
    field("promised_mib", verdict.promised_mib, "Memory currently promised to the GPU's tasks.");
    field("used_mib", verdict.used_mib, "Memory used by all processes in the last sample.");
  }
};
// Whether the server has enough cores and memory to start a waiting task.
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

  static void VisitFields(auto& field, auto& verdict) {
    field("fit", verdict.fit,
          "Whether there are enough cores and memory to start the task; empty if cores and memory "
          "are not counted.",
          {.words = ",fits,not_now,never"});
    field("reason", verdict.reason,
          "The reason in one word, Cpus or HostMemory; empty if the task fits.");
    field("reason_text", verdict.reason_text, "The reason as one sentence with numbers.");
    field("wants_cpus", verdict.wants_cpus, "Cores that would be promised to the task; 0 if none.");
    field("wants_memory_mib", verdict.wants_memory_mib,
          "Memory that would be promised to the task; 0 if none.");
    field("cpus", verdict.cpus, "Cores that can be promised to tasks; 0 if cores are not counted.");
    field("free_cpus", verdict.free_cpus, "Cores not promised to any task.");
    field("memory_mib", verdict.memory_mib,
          "Memory that can be promised to tasks; 0 if memory is not counted.");
    field("free_memory_mib", verdict.free_memory_mib, "Memory not promised to any task.");
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
  std::string store_trouble;

  static void VisitFields(auto& field, auto& explain) {
    field("task", explain.task, "", {.required = true, .expected = "the task"});
    field("gpus", explain.gpus,
          "Whether each GPU can take the task; empty unless the task is waiting.");
    field("host", explain.host,
          "Whether the server has enough cores and memory for the task; set only while the task is "
          "waiting.");
    field("now_ms", explain.now_ms, "The daemon's clock.");
    field("ahead", explain.ahead,
          "Number of tasks ahead of this one in its queue; null if the task is not waiting.");
    field("policy", explain.policy, "The scheduling rules in one line.");
    field("collocation", explain.collocation,
          "How tasks share a GPU, and which limits are enforced.");
    field("taught_mib", explain.taught_mib,
          "Measured memory requirement of similar tasks, used instead of the task's own estimate; "
          "null if none was measured.");
    field("store_trouble", explain.store_trouble,
          "Why the database is not writable, which prevents tasks from being started or changed; "
          "empty if it is writable.");
  }
};

}  // namespace carma::api
