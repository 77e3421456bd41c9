// Builds the server overview that the web page shows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/overview.h"
#include "api/status_view.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"

namespace carma::daemon {

inline constexpr std::size_t kMostRunningRows = 64;
inline constexpr std::size_t kMostWaitingRows = 40;
inline constexpr std::size_t kMostEndedRows = 12;

// The part of the overview that can be shown before the GPUs are known.
api::OverviewView Overview(const api::StatusView& status, const std::string& host, bool simulated);

// Expected starts of the first queued tasks. Computing them takes milliseconds for a long queue, so
// they are computed only every few seconds.
class KeptStarts {
 public:
  // `now` must not decrease from call to call.
  const std::map<core::TaskId, core::ExpectedStart>& At(const core::Scheduler& core,
                                                        base::Time now);

 private:
  std::optional<base::Time> looked_;
  std::map<core::TaskId, core::ExpectedStart> starts_;
};

// Adds the GPUs and the first rows of each task list.
void AddTasksAndGpus(Engine& engine, const Monitor& monitor, KeptStarts& starts, base::Time now,
                     api::OverviewView& view);
// All users with unfinished tasks, by name. Reads every task, which takes milliseconds for 100 000
// tasks.
std::vector<api::UserView> Users(Engine& engine);

}  // namespace carma::daemon
