#include "cli/pilot/job_end.h"

#include "base/program_output.h"
#include "base/text.h"
#include "task/describe/option_values.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxAnswer = 4096;

}  // namespace

std::optional<base::Time> ParseJobEnd(std::string_view text) {
  const std::string_view word = base::Trim(text);
  // Other words for a time, like "now", have another meaning for us.
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  const base::Result<base::Time> time = task::ParseBegin(word, base::Time{});
  return time ? std::optional(*time) : std::nullopt;
}

std::optional<base::Time> AskJobEnd(const std::string& job) {
  return ParseJobEnd(
      base::OutputOf({"squeue", "--noheader", "--jobs", job, "--format", "%e"}, kMaxAnswer));
}

}  // namespace carma::cli
