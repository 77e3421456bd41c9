// Names of tasks on the command line: "42", "42,43", "40-45", "40_3" (index 3 of array 40), "40_*"
// (all of array 40), "@" (my last task), "@~2" (two before my last).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::cli {

inline constexpr std::size_t kMaxTasksNamed = 1'000'000;

// One item in a list of names: a range of numbers, or one of the caller's own tasks, counted from
// the last.
struct TaskRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool own = false;                        // use `back` instead of the numbers
  std::uint64_t back = 0;                  // 0 for the caller's last task
  std::optional<std::int64_t> index = {};  // "40_3": the task with index 3 of array 40
  bool whole = false;  // "40_*": all of array 40, or the task itself if it is not an array
  friend bool operator==(const TaskRange&, const TaskRange&) = default;
};

// Each word may be a comma-separated list. Returns kInvalid, with the item and what was expected,
// if an item is invalid or if there are more than kMaxTasksNamed tasks.
Result<std::vector<TaskRange>> ParseTaskRanges(const std::vector<std::string>& words);
// Returns the numbers in the given order without duplicates. newest_own: at least BackNeeded() of
// the caller's tasks, newest first. Returns kNotFound if the caller has fewer tasks.
Result<std::vector<std::uint64_t>> ExpandRanges(const std::vector<TaskRange>& ranges,
                                                const std::vector<std::uint64_t>& newest_own);
// How many of the caller's last tasks ExpandRanges() needs; 0 if none.
std::uint64_t BackNeeded(const std::vector<TaskRange>& ranges);

// Writes "42", or "42-57" for several tasks.
std::string RangeText(std::uint64_t first, std::uint64_t count);
// Writes ascending numbers as ranges: "40-42,45".
std::string RangesText(const std::vector<std::uint64_t>& ids);

}  // namespace carma::cli
