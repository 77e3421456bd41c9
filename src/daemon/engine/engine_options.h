// Settings of the engine and its parts, given once and later by Engine::Follow().
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

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// Whether and how the Slurm job of a task is requeued.
struct JobReturnPlan {
  std::optional<store::JobReturnRow> row;  // empty: nothing
  std::string told;                        // for the history; or empty
};

struct EngineOptions {
  core::PolicyConfig policy;
  core::HostInfo host;            // cores and memory for tasks; empty: not counted
  task::CgroupControls controls;  // what is enforced
  std::vector<int> all_cores;     // of the machine, including those not for tasks
  bool cpu_cap = false;           // as task::LaunchOrder has it
  std::string state_dir;
  std::string machine_start;  // MachineStart()
  base::Duration kill_grace{30'000};
  std::int64_t max_output_bytes = 0;
  int output_rotations = 1;
  std::int64_t max_processes = 0;  // of one task, as task::LaunchOrder has it
  std::size_t max_queued_tasks = 1'000'000;
  std::size_t max_queued_per_user = 1'000'000;
  std::size_t turn_share = 500;  // approximate number of new tasks per step of a turn
  std::optional<base::Duration> default_time_limit;
  NoticeRules notices;
  std::map<std::string, std::string> task_environment;  // for every task
  std::string socket;         // CARMA_SOCKET of tasks that have none; empty: not set
  MpsServers* mps = nullptr;  // outlives the engine; null: MPS was never used
  bool share_by_mps = false;  // share through MPS servers, else by streams
  std::string mps_dir;
  task::MpsScope mps_servers = task::MpsScope::kGpu;
  bool sm_partitions = false;    // of MPS, for tasks with a share of the SMs
  bool mps_memory_limit = true;  // limits each process to claim and margin
  // Command that sets GPU memory limits of groups, as in task::LaunchOrder; empty: the kernel
  // enforces none. With mps_memory_limit all processes of a task together may use its claim and
  // margin.
  std::vector<std::string> limiter;
  // Loop on which user names of processes arrive (attribution.h); null: user ids are shown.
  std::shared_ptr<boost::asio::io_context> loop;
  // What is learned from finished tasks; null: nothing is.
  std::shared_ptr<estimate::History> history;
  // Called for tasks whose attempt has ended (MayComeBack()); null: never.
  std::function<JobReturnPlan(const core::TaskRecord&)> job_return;
};

// Posts an event for the core's next turn.
using PostEvent = std::function<void(core::Event)>;

}  // namespace carma::daemon
