// What edit and redo change of tasks, as the fields that the daemon takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/views.h"
#include "base/result.h"
#include "cli/command.h"

namespace carma::cli {

// A JSON object of the fields that these options of submit set, null where one takes a field back
// ("--time unlimited"); "" for no options. Asks the daemon for its time where it matters. Errors:
// kInvalid "--gpus: …".
base::Result<std::string> ChangesOf(
    Context& context, const std::vector<std::pair<std::string, std::string>>& settings);

// A task that is done again, and what it waits for: "afterok:12" …
struct DependentTask {
  std::uint64_t id = 0;
  std::vector<std::string> waits_for;
  friend bool operator==(const DependentTask&, const DependentTask&) = default;
};
// Those, and of `tasks` those that depend on them, directly or not: each after what it waits for,
// of which only such is listed as is done again too.
std::vector<DependentTask> WithDependents(const std::vector<std::uint64_t>& ids,
                                          const std::vector<api::TaskView>& tasks);
// The changes and dependencies on the new ones of those tasks. anew: by the old number.
std::string WithDependencies(const std::string& changes, const std::vector<std::string>& waits_for,
                             const std::map<std::uint64_t, std::uint64_t>& anew);

}  // namespace carma::cli
