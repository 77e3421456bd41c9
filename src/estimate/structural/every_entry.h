// Iterates over a constexpr table.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

namespace carma::estimate {

// Calls use(entry) for each entry of kTable in order. The loop is unrolled so that the functions in
// the entries are inlined. A model has thousands of rows, and calls through pointers took a fifth
// of the time.
template <const auto& kTable, class Use>
void ForEveryEntry(Use use) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (use(kTable[kIndex]), ...);
  }
  (std::make_index_sequence<std::size(kTable)>());
}

}  // namespace carma::estimate
