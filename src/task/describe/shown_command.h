// What a task runs, as lists and notices show it.
#pragma once

#include <string>
#include <vector>

#include "task/describe/spec.h"

namespace carma::task {

// argv, or the script's path (its name, if it came from stdin) and arguments. A line for /bin/sh
// (--wrap) becomes {"sh", "-c", its first line}.
std::vector<std::string> ShownCommand(const TaskSpec& spec);

}  // namespace carma::task
