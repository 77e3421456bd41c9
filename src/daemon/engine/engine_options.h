// Settings of the engine and its parts. Engine::Follow() changes some of them later.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/policy/policy.h"
#include "core/scheduler/events.h"
#include "daemon/engine/mps_servers.h"
#include "daemon/engine/task_notices.h"
#include "estimate/history.h"
#include "store/store.h"
#include "task/process/cgroup.h"

namespace carma::daemon {

// Whether and how a task's Slurm job is requeued.
struct JobReturnPlan {
  std::optional<store::JobReturnRow> row;  // empty if not requeued
  std::string told;                        // a line for the history, or empty
};

struct EngineOptions {
  core::PolicyConfig policy;
  core::HostInfo host;            // cores and memory available to tasks; 0 if not counted
  task::CgroupControls controls;  // the limits that the kernel enforces
  std::vector<int> all_cores;     // the machine's cores, including those not available to tasks
  bool cpu_cap = false;           // as in task::LaunchOrder
  std::string state_dir;
  std::string machine_start;  // from MachineStart()
  base::Duration kill_grace{30'000};
  std::int64_t max_output_bytes = 0;
  int output_rotations = 1;
  std::int64_t max_processes = 0;  // limit for one task, as in task::LaunchOrder
  std::size_t max_queued_tasks = 1'000'000;
  std::size_t max_queued_per_user = 1'000'000;
  std::size_t turn_share = 500;  // new tasks that each step of a turn handles; approximate
  std::optional<base::Duration> default_time_limit;
  NoticeRules notices;
  std::map<std::string, std::string> task_environment;  // environment variables for all tasks
  std::string socket;         // CARMA_SOCKET for tasks that do not set it; may be empty
  MpsServers* mps = nullptr;  // must outlive the engine; null if MPS was never used
  bool share_by_mps = false;  // share GPUs through MPS servers instead of streams
  std::string mps_dir;
  task::MpsScope mps_servers = task::MpsScope::kGpu;
  bool sm_partitions = false;    // use MPS partitions for tasks that request a share of the SMs
  bool mps_memory_limit = true;  // limit each MPS client process to its task's claim plus margin
  // The command that sets GPU memory limits for control groups, as in task::LaunchOrder; empty if
  // the kernel does not enforce limits. If mps_memory_limit is true, the command limits the
  // processes of each task together to the task's claim plus margin.
  std::vector<std::string> limiter;
  // The loop that receives the user names of processes (process_faces.h). If null, UIDs are shown
  // instead.
  std::shared_ptr<boost::asio::io_context> loop;
  // Collects observations from finished tasks. If null, CARMA does not learn from tasks.
  std::shared_ptr<estimate::History> history;
  // Called for tasks whose attempt has ended (see MayComeBack()). If null, Slurm jobs are not
  // requeued.
  std::function<JobReturnPlan(const core::TaskRecord&)> job_return;
};

// Posts an event for the core's next turn.
using PostEvent = std::function<void(core::Event)>;

}  // namespace carma::daemon
