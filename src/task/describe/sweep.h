// Parameter sweeps: one task for each combination of values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::task {

using Parameters = std::map<std::string, std::string>;

// "lr=0.1,0.01": the values of one parameter. Errors: kInvalid.
Result<std::pair<std::string, std::vector<std::string>>> ParseParameter(std::string_view text);
// A CSV table: parameters in the header, a combination on each line. where: its name for messages.
// Errors: kInvalid "sweep.csv:3: …".
Result<std::vector<Parameters>> ParseSweepTable(std::string_view text, std::string_view where);
// All combinations of the values with the lines of the table, the last parameter varying fastest.
// Errors: kInvalid: a repeated name, too many names or tasks.
Result<std::vector<Parameters>> Combinations(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& parameters,
    const std::vector<Parameters>& table);

// The task for these values: "{lr}" in its command, the arguments of its script, its name and the
// paths of its output becomes the value of lr. Other braces stay.
void ApplyParameters(const Parameters& parameters, TaskSpec& spec);

}  // namespace carma::task
