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
base::Result<std::vector<std::string>> ParseColumns(const std::string& keys);
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

}  // namespace carma::cli
