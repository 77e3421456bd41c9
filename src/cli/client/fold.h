// Rows of `carma list`: what waits of an array as one, and tasks below what they wait for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/views.h"

namespace carma::cli {

struct FoldedTasks {
  std::vector<api::TaskView> tasks;          // of those that were folded the first
  std::map<std::uint64_t, std::string> ids;  // of that one: "40-51", as every verb takes it
};
// Tasks of one array that hold no GPUs and are alike in state and reason become one row, where the
// first of them stood: "train.py x12". cut: the list has more behind its end, so that the last
// group may be larger: "train.py x12+".
FoldedTasks FoldArrays(const std::vector<api::TaskView>& tasks, bool cut = false);

// Each task below the last of those it waits for, where that is listed too; its name shows how
// deep.
std::vector<api::TaskView> AsTree(const std::vector<api::TaskView>& tasks);

}  // namespace carma::cli
