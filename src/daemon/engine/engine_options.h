// What the engine and its parts are told once, and later by Engine::Follow().
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

// What follows for the job of Slurm's that a task was of.
struct JobReturnPlan {
  std::optional<store::JobReturnRow> row;  // empty: nothing
  std::string told;                        // by the history; empty: nothing
};

struct EngineOptions {
  core::PolicyConfig policy;
  core::HostInfo host;  // the machine's own cores and memory for tasks; empty: nothing is counted
  task::CgroupControls controls;  // what is enforced of it
  std::vector<int> all_cores;     // of the machine, also those that are not for tasks
  bool cpu_cap = false;           // as task::LaunchOrder has it
  std::string state_dir;
  std::string machine_start;  // MachineStart()
  base::Duration kill_grace{30'000};
  std::int64_t max_output_bytes = 0;
  int output_rotations = 1;
  std::int64_t max_processes = 0;  // of one task, as task::LaunchOrder has it
  std::size_t max_queued_tasks = 1'000'000;
  std::size_t max_queued_per_user = 1'000'000;
  std::size_t turn_share = 500;  // about so many new tasks are taken in one turn of each step
  std::optional<base::Duration> default_time_limit;
  NoticeRules notices;
  std::map<std::string, std::string> task_environment;  // for every task
  MpsServers* mps = nullptr;  // outlives the engine; null: no task ever was at an MPS server
  bool share_by_mps = false;  // tasks with neighbours share through MPS servers, else by streams
  std::string mps_dir;
  bool mps_server_per_gpu = true;  // false: one for all whole GPUs
  bool mps_memory_limit = true;    // no process may take more than its claim and the margin
  // Sets the limits of groups' GPU memory, as task::LaunchOrder has it; empty: the kernel enforces
  // none. With mps_memory_limit, claim and margin hold for all processes of a task together.
  std::vector<std::string> limiter;
  // Where it arrives who the users of the GPUs are (attribution.h); null: their numbers do.
  std::shared_ptr<boost::asio::io_context> loop;
  // What finished tasks teach; null: they do not.
  std::shared_ptr<estimate::History> history;
  // Asked of tasks whose attempt has ended (MayComeBack()); null: of none.
  std::function<JobReturnPlan(const core::TaskRecord&)> job_return;
};

// The core hears of the event in the next turn.
using PostEvent = std::function<void(core::Event)>;

}  // namespace carma::daemon
