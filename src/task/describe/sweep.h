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

// Parses the values of one parameter: "lr=0.1,0.01". Returns kInvalid for any other text.
Result<std::pair<std::string, std::vector<std::string>>> ParseParameter(std::string_view text);
// Parses a CSV table: the header names the parameters, and each line is one combination. where:
// name of the table in messages. Returns kInvalid "sweep.csv:3: …" if the table is malformed.
Result<std::vector<Parameters>> ParseSweepTable(std::string_view text, std::string_view where);
// All combinations of the values and the table rows. The last parameter varies fastest. Returns
// kInvalid for a repeated name, or for too many names or tasks.
Result<std::vector<Parameters>> Combinations(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& parameters,
    const std::vector<Parameters>& table);

// Substitutes these values in the task: "{lr}" becomes the value of lr in the task's command,
// script arguments, name and output paths. Other text in braces is left unchanged.
void ApplyParameters(const Parameters& parameters, TaskSpec& spec);

}  // namespace carma::task
