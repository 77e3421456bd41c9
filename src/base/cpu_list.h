// Lists of hardware threads as the kernel writes them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Writes the numbers in ascending order; "" for an empty list. They may be given in any order.
std::string CpuListText(std::vector<int> cpus);
// Returns the numbers in ascending order without repetition, and ignores surrounding blanks.
// Returns empty if the text is not a valid list, or contains a number of 65,536 or more.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace carma::base
