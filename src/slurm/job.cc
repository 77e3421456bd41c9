#include "slurm/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/text.h"

namespace carma::slurm {
namespace {

constexpr std::size_t kColumns = 10;
constexpr std::size_t kMostOfWord = 300;
constexpr std::size_t kMostOfComment = 300;
constexpr std::string_view kNoComment = "(null)";
// The reasons of jobs that a user or an administrator holds, or that `scontrol requeuehold` held.
constexpr std::array<std::string_view, 3> kHeldReasons{"JobHeldAdmin", "JobHeldUser",
                                                       "job requeued in held state"};
constexpr std::array<std::string_view, 5> kRunningStates{"RUNNING", "COMPLETING", "SUSPENDED",
                                                         "STOPPED", "SIGNALING"};

std::optional<std::int64_t> NumberIn(std::string_view text, std::int64_t most) {
  const std::optional<std::int64_t> number = base::ParseInt(text);
  return number && *number >= 0 && *number <= most ? number : std::nullopt;
}

// "gres:carma:12", "gres:gpu:1,gres:carma:12", "gres/carma:12"; a job of another kind has none.
std::int64_t CarmaGib(std::string_view tres) {
  for (const std::string_view each : base::Split(tres, ',')) {
    const std::size_t at = each.rfind("carma:");
    if (at == std::string_view::npos || (at > 0 && each[at - 1] != ':' && each[at - 1] != '/'))
      continue;
    return NumberIn(each.substr(at + 6), std::numeric_limits<int>::max()).value_or(0);
  }
  return 0;
}

bool IsName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    return (letter >= '0' && letter <= '9') || letter == '_' || letter == '+';
  });
}

Result<Job> ParseLine(std::string_view line) {
  const std::vector<std::string_view> raw = base::Split(line, '|');
  const auto wrong = [&] {
    return Fail(ErrorCode::kInvalid,
                fmt::format("not a line of squeue: {}", base::Printable(line, 100)));
  };
  // A separator ends each column; the last column may itself contain separators.
  if (raw.size() < kColumns + 1 || !base::Trim(raw.back()).empty()) return wrong();
  std::array<std::string_view, kColumns> words;
  std::transform(raw.begin(), raw.begin() + kColumns, words.begin(), base::Trim);
  const std::string_view comment =
      base::Trim(std::string_view(raw[kColumns - 1].data(), raw.back().data() - 1));
  if (std::ranges::any_of(words, [](auto word) { return word.size() > kMostOfWord; }))
    return wrong();
  constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
  const auto id = NumberIn(words[0], std::numeric_limits<std::int64_t>::max());
  const auto restarts = NumberIn(words[6], kMostInt);
  const auto nodes = NumberIn(words[8], kMostInt);
  if (!id || *id == 0 || !restarts || !nodes || !IsName(words[1]) || words[2].empty())
    return wrong();
  return Job{
      .id = static_cast<std::uint64_t>(*id),
      .name = std::string(words[1]),
      .state = std::string(words[2]),
      .reason = std::string(words[3]),
      .batch = words[4] == "1",
      .requeue = words[5] == "1",
      .restarts = static_cast<int>(*restarts),
      .carma_gib = CarmaGib(words[7]),
      .nodes = static_cast<int>(*nodes),
      .admin_comment = comment == kNoComment ? "" : base::Printable(comment, kMostOfComment)};
}

}  // namespace

const char* const kJobColumns =
    "JobID:20|,JobArrayID:60|,State:30|,Reason:80|,BatchFlag:4|,Requeue:4|,RestartCnt:12|,"
    "tres-per-node:250|,NumNodes:12|,admin_comment:300|";

bool Job::Held() const {
  return Waits() && std::ranges::find(kHeldReasons, reason) != kHeldReasons.end();
}

bool Job::Runs() const {
  return std::ranges::find(kRunningStates, state) != kRunningStates.end();
}

Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id) {
  if (text.size() > kMostOfSqueue)
    return Fail(ErrorCode::kInvalid, "the output of squeue is too long");
  for (const std::string_view line : base::Split(text, '\n')) {
    if (base::Trim(line).empty()) continue;
    Result<Job> job = ParseLine(line);
    if (!job) return std::unexpected(job.error());
    if (job->id == id) return *std::move(job);
  }
  return std::nullopt;
}

}  // namespace carma::slurm
