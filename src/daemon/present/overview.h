// The server at a glance, as the web page shows it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/overview.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"

namespace carma::daemon {

inline constexpr std::size_t kMostRunningRows = 64;
inline constexpr std::size_t kMostWaitingRows = 40;
inline constexpr std::size_t kMostEndedRows = 12;

// What can be told before the GPUs are known.
api::OverviewView Overview(const api::StatusView& status, const std::string& host, bool simulated);

// When the first tasks in line start. To look that up in a long line takes milliseconds, so it is
// done every few seconds only.
class KeptStarts {
 public:
  // now: never goes back.
  const std::map<core::TaskId, core::ExpectedStart>& At(const core::Scheduler& core,
                                                        base::Time now);

 private:
  std::optional<base::Time> looked_;
  std::map<core::TaskId, core::ExpectedStart> starts_;
};

// Adds the GPUs and the first rows of each list.
void AddTasksAndGpus(Engine& engine, const Monitor& monitor, KeptStarts& starts, base::Time now,
                     api::OverviewView& view);
// Everybody with tasks that have not ended, by name. Looks at all of them: milliseconds for 100
// 000.
std::vector<api::UserView> Users(Engine& engine);

}  // namespace carma::daemon
