// Lists of hardware threads as the kernel writes them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Rising; "" of none. The numbers may come in any order.
std::string CpuListText(std::vector<int> cpus);
// Rising, each once; blanks around it are passed over. Empty: no such list, or a number of 65 536
// or more.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace carma::base
