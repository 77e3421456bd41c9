#include "cli/ids.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/try.h"

namespace carma::cli {
namespace {

// Largest N in "@~N". Limits how many tasks are listed to find the N-th.
constexpr std::int64_t kMaxBack = 9'999;

std::optional<std::uint64_t> ParseId(std::string_view text) {
  const auto number = base::ParseInt(text);
  if (!number || *number < 1) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

Result<TaskRange> ParsePiece(std::string_view piece) {
  const auto bad = Invalid("task '" + base::Printable(piece, 40) +
                           "': expected a number, a range such as 40-45, 40_3, @ or @~N");
  if (piece == "@") return TaskRange{.own = true};
  if (piece.starts_with("@~")) {
    const auto back = base::ParseInt(piece.substr(2));
    if (!back || *back < 0 || *back > kMaxBack) return bad;
    return TaskRange{.own = true, .back = static_cast<std::uint64_t>(*back)};
  }
  if (const std::size_t bar = piece.find('_'); bar != std::string_view::npos) {
    const auto array = ParseId(piece.substr(0, bar));
    if (array && piece.substr(bar) == "_*")
      return TaskRange{.first = *array, .last = *array, .whole = true};
    const auto index = base::ParseInt(piece.substr(bar + 1));
    if (!array || !index || *index < 0) return bad;
    return TaskRange{.first = *array, .last = *array, .index = *index};
  }
  const std::size_t dash = piece.find('-');
  const auto first = ParseId(piece.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : ParseId(piece.substr(dash + 1));
  if (!first || !last || *last < *first) return bad;
  return TaskRange{.first = *first, .last = *last};
}

}  // namespace

Result<std::vector<TaskRange>> ParseTaskRanges(const std::vector<std::string>& words) {
  std::vector<TaskRange> ranges;
  std::uint64_t total = 0;
  for (const std::string& word : words) {
    for (std::string_view piece : base::Split(word, ',')) {
      const TaskRange range = CARMA_TRY(ParsePiece(piece));
      // Checked after each range, because the sum of all ranges could overflow.
      const std::uint64_t count = range.own ? 1 : range.last - range.first + 1;
      if (count > kMaxTasksNamed || (total += count) > kMaxTasksNamed)
        return Invalid("tasks '{}': expected at most {}", base::Printable(word, 40),
                       kMaxTasksNamed);
      ranges.push_back(range);
    }
  }
  return ranges;
}

std::uint64_t BackNeeded(const std::vector<TaskRange>& ranges) {
  std::uint64_t needed = 0;
  for (const TaskRange& range : ranges) {
    if (range.own) needed = std::max(needed, range.back + 1);
  }
  return needed;
}

Result<std::vector<std::uint64_t>> ExpandRanges(const std::vector<TaskRange>& ranges,
                                                const std::vector<std::uint64_t>& newest_own) {
  std::vector<std::uint64_t> ids;
  std::set<std::uint64_t> seen;
  const auto add = [&](std::uint64_t id) {
    if (seen.insert(id).second) ids.push_back(id);
  };
  for (const TaskRange& range : ranges) {
    if (range.own && range.back >= newest_own.size()) {
      return NotFound(newest_own.empty()
                          ? "you have no tasks yet"
                          : "you have only " + base::Counted(std::ssize(newest_own), "task") +
                                ", so @~" + std::to_string(range.back) + " does not exist");
    }
    if (range.own) {
      add(newest_own[range.back]);
    } else {
      for (std::uint64_t id = range.first; id <= range.last; ++id) add(id);
    }
  }
  return ids;
}

std::string RangeText(std::uint64_t first, std::uint64_t count) {
  if (count <= 1) return std::to_string(first);
  return std::to_string(first) + "-" + std::to_string(first + count - 1);
}

std::string RangesText(const std::vector<std::uint64_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + RangeText(ids[i], end - i);
    i = end;
  }
  return text;
}

}  // namespace carma::cli
