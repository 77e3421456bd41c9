// Names of tasks on the command line: "42", "42,43", "40-45", "40_3" (index 3 of array 40), "40_*"
// (all of array 40), "@" (my last), "@~2" (two before it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::cli {

inline constexpr std::size_t kMaxTasksNamed = 1'000'000;

// One piece of such a list: a range of numbers, or the n-th last of the caller's own tasks.
struct TaskRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool own = false;                        // use `back`, not the numbers
  std::uint64_t back = 0;                  // 0: my last one
  std::optional<std::int64_t> index = {};  // "40_3": the member with index 3 of array 40
  bool whole = false;                      // "40_*": array 40; a task that is none: itself
  friend bool operator==(const TaskRange&, const TaskRange&) = default;
};

// Each word may be a comma-separated list. Errors: kInvalid naming the piece and what is expected;
// more than kMaxTasksNamed tasks.
Result<std::vector<TaskRange>> ParseTaskRanges(const std::vector<std::string>& words);
// The numbers in the order given, without repetition. newest_own: the caller's tasks, newest first,
// at least BackNeeded() of them. Errors: kNotFound if the caller has fewer tasks.
Result<std::vector<std::uint64_t>> ExpandRanges(const std::vector<TaskRange>& ranges,
                                                const std::vector<std::uint64_t>& newest_own);
// The number of the caller's last tasks that are needed; 0: none.
std::uint64_t BackNeeded(const std::vector<TaskRange>& ranges);

// "42", or "42-57" for several.
std::string RangeText(std::uint64_t first, std::uint64_t count);
// "40-42,45", for ascending numbers.
std::string RangesText(const std::vector<std::uint64_t>& ids);

}  // namespace carma::cli
