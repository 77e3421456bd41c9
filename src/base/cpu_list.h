// Reads and writes lists of hardware threads in the kernel's notation: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Returns the list in ascending order, or "" if it is empty. The input may be in any order.
std::string CpuListText(std::vector<int> cpus);
// Returns the numbers in ascending order without duplicates. Ignores surrounding blanks. Returns
// nothing if the text is not a valid list or contains a number of 65,536 or more.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace carma::base
