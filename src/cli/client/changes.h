// Converts the options of `carma edit` and `carma redo` to the JSON fields that the daemon expects.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "base/result.h"
#include "cli/client/verbs.h"

namespace carma::cli {

// Returns a JSON object with the fields that these submit options set, or "" if there are no
// options. An option that removes a setting, such as "--time unlimited", sets its field to null.
// May ask the daemon for its time. Returns kInvalid "--gpus: …" if an option is invalid.
Result<std::string> ChangesOf(Context& context, const Settings& settings);

// Replaces a field name at the start of the message with what the user typed: "qos: …" becomes
// "--qos: …", "name: …" becomes "--job-name: …", "command/2: …" becomes "argument 2: …".
base::Error NamedAsTyped(base::Error error);

// A task to submit again, with its dependencies if they are to be copied: "afterok:12" …
struct DependentTask {
  std::uint64_t id = 0;
  std::vector<std::string> waits_for;
  friend bool operator==(const DependentTask&, const DependentTask&) = default;
};
// Returns these tasks, and all tasks in `tasks` that depend on them directly or indirectly. Each
// task comes after its dependencies. For a task that depends on a resubmitted one, waits_for lists
// all dependencies that are still in the history. For any other task, it is empty.
std::vector<DependentTask> WithDependents(const std::vector<std::uint64_t>& ids,
                                          const std::vector<api::TaskView>& tasks);
// Adds the dependencies to the changes. renewed: the new number of each resubmitted task; other
// dependencies are kept.
std::string WithDependencies(const std::string& changes, const std::vector<std::string>& waits_for,
                             const std::map<std::uint64_t, std::uint64_t>& renewed);

}  // namespace carma::cli
