// Lists of hardware threads as the kernel writes them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// In ascending order; "" for none. The numbers may come in any order.
std::string CpuListText(std::vector<int> cpus);
// In ascending order, without repetition; surrounding blanks are ignored. Empty: not such a list,
// or a number of 65 536 or more.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace carma::base
