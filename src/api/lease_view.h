// Leases in the API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"

namespace carma::api {

struct LeaseView {
  std::uint64_t id = 0;
  std::string state;
  std::string reason;
  std::string reason_text;
  std::string task_state;
  std::string user;
  std::int64_t pid = 0;
  std::vector<std::string> gpu_uuids;
  std::string cluster;
  std::optional<std::uint64_t> job;
  std::string step;
  int restart = 0;
  std::string outcome;
  std::string follows;
  std::vector<std::string> outputs;
  std::vector<std::string> warnings;

  static void VisitFields(auto& field, auto& lease) {
    field("id", lease.id, "Its number, which is that of its task.");
    field("state", lease.state,
          "waiting: for GPUs; granted: they are reserved for it until it adopts them, for 30 s at "
          "most; adopted: its process uses them; ended.",
          {.words = "waiting,granted,adopted,ended"});
    field("reason", lease.reason, "Why it waits or how it ended, as for a task.");
    field("reason_text", lease.reason_text, "The reason as one sentence with numbers.");
    field("task_state", lease.task_state, "State of its task.");
    field("user", lease.user, "Its user.");
    field("pid", lease.pid, "The process that asked for it.", {.low = 0});
    field("gpu_uuids", lease.gpu_uuids, "The GPUs that it has.");
    field("cluster", lease.cluster, "For a job of a workload manager: the name of its cluster.");
    field("job", lease.job, "The number of that job.");
    field("step", lease.step, "The step of that job: batch, interactive, or a number.");
    field("restart", lease.restart, "How often the job had been restarted before.");
    field("outcome", lease.outcome,
          "How it ended: given_up while it waited; unused: it was granted, but nothing was started "
          "with it; ran.",
          {.words = ",given_up,unused,ran"});
    field("follows", lease.follows,
          "After its end: requeue while its job is being put back into Slurm's queue.",
          {.words = ",requeue"});
    field("outputs", lease.outputs,
          "For a running step of a job: files to which its processes write, each as INODE PATH.");
    field("warnings", lease.warnings, "What it asks for but this server cannot do.");
  }
};

}  // namespace carma::api
