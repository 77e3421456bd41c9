// The command of a task as lists and notices show it.
#pragma once

#include <string>
#include <vector>

#include "task/describe/spec.h"

namespace carma::task {

// argv, or the script's path and arguments. A script from stdin is shown by its name. A line for
// /bin/sh (--wrap) becomes {"sh", "-c", its first line}.
std::vector<std::string> ShownCommand(const TaskSpec& spec);

}  // namespace carma::task
