// Changes by edit and redo, as fields for the daemon.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/task_view.h"
#include "base/result.h"
#include "cli/command.h"

namespace carma::cli {

// A JSON object of the fields that these submit options set, null for removed ones ("--time
// unlimited"); "" without options. Asks the daemon for its time if needed. Errors: kInvalid
// "--gpus: …".
Result<std::string> ChangesOf(Context& context,
                              const std::vector<std::pair<std::string, std::string>>& settings);

// The same error, beginning with what the user typed instead of a field of the description:
// "qos: …" becomes "--qos: …", "name: …" "--job-name: …", "command/2: …" "argument 2: …".
base::Error NamedAsTyped(base::Error error);

// A task to submit again, and its dependencies: "afterok:12" …
struct DependentTask {
  std::uint64_t id = 0;
  std::vector<std::string> waits_for;
  friend bool operator==(const DependentTask&, const DependentTask&) = default;
};
// These tasks, and those of `tasks` that depend on them directly or indirectly, each after its
// dependencies. Only dependencies on repeated tasks are listed.
std::vector<DependentTask> WithDependents(const std::vector<std::uint64_t>& ids,
                                          const std::vector<api::TaskView>& tasks);
// The changes, with dependencies that point to the new tasks. anew: the new number of each repeated
// task.
std::string WithDependencies(const std::string& changes, const std::vector<std::string>& waits_for,
                             const std::map<std::uint64_t, std::uint64_t>& anew);

}  // namespace carma::cli
