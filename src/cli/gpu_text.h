// GPUs and the daemon as people read them.
#pragma once

#include <string>
#include <vector>

#include "api/views.h"
#include "cli/calls.h"
#include "cli/terminal.h"

namespace carma::cli {

std::string GpuTable(const std::vector<api::GpuView>& gpus, const Screen& screen);
// Facts of the daemon, and its troubles last.
std::string StatusText(const api::StatusView& status);
// One line per task of a dry run.
std::string CheckText(const std::vector<CheckedTask>& tasks, std::size_t count);

}  // namespace carma::cli
