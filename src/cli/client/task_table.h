// Tasks as rows of a table: `carma list`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "base/result.h"
#include "cli/terminal.h"

namespace carma::cli {

// Columns of `carma list` by key, "id,name,st"; empty: the usual ones. Errors: kInvalid with the
// list of known keys.
Result<std::vector<std::string>> ParseColumns(const std::string& keys);
// "id", "name" …: the keys for ParseColumns.
std::vector<std::string> ColumnKeys();
// "id  number of the task" … one line per column, for --help.
std::string ColumnHelp();

struct ListStyle {
  std::vector<std::string> columns;  // from ParseColumns
  bool titles = true;
  std::int64_t now_ms = 0;                        // the daemon's clock
  std::map<std::uint64_t, std::string> ids = {};  // shown instead of a number (FoldArrays)
};
std::string TaskTable(const std::vector<api::TaskView>& tasks, const ListStyle& style,
                      const Screen& screen);
// Sorts in queue order: running ones by start, then the recovery queue, then by priority and
// number.
void SortAsQueue(std::vector<api::TaskView>& tasks);

// ---- rows of `carma list`: tasks of an array as one, or tasks below their dependencies ----

struct FoldedTasks {
  std::vector<api::TaskView> tasks;          // the first of each folded group
  std::map<std::uint64_t, std::string> ids;  // its range: "40-51", as verbs take it
};
// Combines tasks of one array that have no GPUs and equal state and reason into one row at the
// position of the first: "train.py x12". cut: the list is incomplete, so the last group may be
// larger: "train.py x12+".
FoldedTasks FoldArrays(const std::vector<api::TaskView>& tasks, bool cut = false);

// Puts each task below the last of its dependencies that is listed; names are indented by depth.
std::vector<api::TaskView> AsTree(const std::vector<api::TaskView>& tasks);

}  // namespace carma::cli
