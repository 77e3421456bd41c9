// Shows tasks as rows of a table, for `carma list`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "base/result.h"
#include "cli/terminal.h"

namespace carma::cli {

// Parses column keys such as "id,name,st"; empty means the default columns. Returns kInvalid, with
// the list of known keys, if a key is unknown.
Result<std::vector<std::string>> ParseColumns(const std::string& keys);
// All keys that ParseColumns accepts: "id", "name" …
std::vector<std::string> ColumnKeys();
// A line for each column, for --help: "id  number" …
std::string ColumnHelp();

struct ListStyle {
  std::vector<std::string> columns;  // from ParseColumns
  bool titles = true;
  std::int64_t now_ms = 0;                        // the daemon's clock
  std::map<std::uint64_t, std::string> ids = {};  // shown instead of a number (FoldArrays)
};
std::string TaskTable(const std::vector<api::TaskView>& tasks, const ListStyle& style,
                      const Screen& screen);
// Sorts tasks in queue order: running tasks by start, then the recovery queue, then the other
// waiting tasks by priority and number.
void SortAsQueue(std::vector<api::TaskView>& tasks);

// ---- rows of `carma list`: an array as one row, or tasks below their dependencies ----

struct FoldedTasks {
  std::vector<api::TaskView> tasks;          // the first task of each folded group
  std::map<std::uint64_t, std::string> ids;  // the range of each group, "40-51", as verbs accept it
};
// Combines the tasks of an array into one row, "train.py x12", if they hold no GPUs and have the
// same state, reason and exit code. The row takes the place of its first task. cut: true if the
// list is incomplete, so that the last group may be larger: "train.py x12+".
FoldedTasks FoldArrays(const std::vector<api::TaskView>& tasks, bool cut = false);

// Puts each task below the last of its listed dependencies. Names are indented by depth.
std::vector<api::TaskView> AsTree(const std::vector<api::TaskView>& tasks);

}  // namespace carma::cli
