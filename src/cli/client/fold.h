// Rows of `carma list`: folds waiting tasks of an array into one, or shows tasks below their
// dependencies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"

namespace carma::cli {

struct FoldedTasks {
  std::vector<api::TaskView> tasks;          // the first of each folded group
  std::map<std::uint64_t, std::string> ids;  // its range: "40-51", as verbs take it
};
// Tasks of one array without GPUs and with equal state and reason become one row at the place of
// the first: "train.py x12". cut: the list is incomplete, so the last group may be larger:
// "train.py x12+".
FoldedTasks FoldArrays(const std::vector<api::TaskView>& tasks, bool cut = false);

// Puts each task below the last of its dependencies that is listed; names are indented by depth.
std::vector<api::TaskView> AsTree(const std::vector<api::TaskView>& tasks);

}  // namespace carma::cli
