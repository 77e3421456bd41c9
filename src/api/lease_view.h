// The API's view of a lease of GPUs.
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
    field("id", lease.id, "Lease number, the same as the number of its task.");
    field("state", lease.state,
          "waiting (for GPUs), granted (GPUs are reserved for up to 30 s until its process adopts "
          "them), adopted (its process uses them) or ended.",
          {.words = "waiting,granted,adopted,ended"});
    field("reason", lease.reason,
          "Why the lease is waiting or how it ended, as one of the reasons used for tasks.");
    field("reason_text", lease.reason_text, "The reason as one sentence with numbers.");
    field("task_state", lease.task_state, "State of the lease's task.");
    field("user", lease.user, "User who requested the lease.");
    field("pid", lease.pid, "Process that requested the lease.", {.low = 0});
    field("gpu_uuids", lease.gpu_uuids, "GPUs that the lease holds.");
    field("cluster", lease.cluster,
          "Cluster name, if the lease belongs to a job of a workload manager.");
    field("job", lease.job, "Job number.");
    field("step", lease.step, "Step of the job: batch, interactive, or a number.");
    field("restart", lease.restart, "Number of earlier restarts of the job.");
    field("outcome", lease.outcome,
          "How the lease ended: given_up (while waiting), unused (granted, but nothing was "
          "started) or ran (it was used).",
          {.words = ",given_up,unused,ran"});
    field("follows", lease.follows,
          "requeue: the lease has ended, and Slurm is being asked to requeue its job.",
          {.words = ",requeue"});
    field("outputs", lease.outputs,
          "For a running job step: the files its processes write to, each as INODE PATH.");
    field("warnings", lease.warnings, "Parts of the request that this server cannot provide.");
  }
};

}  // namespace carma::api
