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

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& lease) {
    field("id", lease.id, "Its number, which is that of its task.");
    field("state", lease.state,
          "waiting: for GPUs; granted: they are its own until it adopts them, or 30 s are over; "
          "adopted: its process uses them; ended.",
          {.words = "waiting,granted,adopted,ended"});
    field("reason", lease.reason, "Why it waits or how it ended, as of a task.");
    field("reason_text", lease.reason_text, "The same as one sentence with numbers.");
    field("task_state", lease.task_state, "State of its task.");
    field("user", lease.user, "Whose it is.");
    field("pid", lease.pid, "The process that asked for it.", {.low = 0});
    field("gpu_uuids", lease.gpu_uuids, "The GPUs that it has.");
    field("cluster", lease.cluster, "Of a workload manager's job: the name of its cluster.");
    field("job", lease.job, "Its number there.");
    field("step", lease.step, "Which of its steps: batch, interactive, or a number.");
    field("restart", lease.restart, "How often the job was started again before.");
    field("outcome", lease.outcome,
          "Of one that has ended: given_up while it waited; unused: it was granted, and nothing "
          "was started under it; ran.",
          {.words = ",given_up,unused,ran"});
    field("follows", lease.follows,
          "Of one that has ended: requeue while its job is being put back into Slurm's queue.",
          {.words = ",requeue"});
    field("outputs", lease.outputs,
          "Of a job's step that runs: files that its processes write to, each as INODE PATH.");
  }
};

}  // namespace carma::api
