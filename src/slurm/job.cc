#include "slurm/job.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/text.h"

namespace carma::slurm {
namespace {

constexpr std::size_t kColumns = 16;
constexpr std::size_t kMostOfWord = 300;
constexpr std::string_view kCarma = "carma:";
// The reasons that Slurm reports for held jobs.
constexpr std::array<std::string_view, 3> kHeldReasons{"JobHeldAdmin", "JobHeldUser",
                                                       kHeldByRequeue};
constexpr std::array<std::string_view, 5> kRunningStates{"RUNNING", "COMPLETING", "SUSPENDED",
                                                         "STOPPED", "SIGNALING"};

std::optional<std::int64_t> NumberIn(std::string_view text, std::int64_t most) {
  const std::optional<std::int64_t> number = base::ParseInt(text);
  return number && *number >= 0 && *number <= most ? number : std::nullopt;
}

// Slurm prints "(null)" or "N/A" for missing values.
std::string_view ValueIn(std::string_view word) {
  return word == "(null)" || word == "N/A" ? std::string_view() : word;
}

// Turns "gres:gpu:1" and "gres/gpu:1" into "gpu:1".
std::string_view WithoutPrefix(std::string_view each) {
  return each.starts_with("gres:") || each.starts_with("gres/") ? each.substr(5) : each;
}

// Parses "gres:carma:12", "gres:gpu:1,gres:carma:12" or "gres/carma:12".
void ReadGres(std::string_view tres, Job& job) {
  for (std::string_view each : base::Split(ValueIn(tres), ',')) {
    each = WithoutPrefix(each);
    if (each.empty()) continue;
    job.gres += (job.gres.empty() ? "" : ",") + std::string(each);
    if (!each.starts_with(kCarma)) {
      job.other_gres = true;
    } else if (job.carma_gib == 0) {
      job.carma_gib =
          NumberIn(each.substr(kCarma.size()), std::numeric_limits<int>::max()).value_or(0);
    }
  }
}

// Parses "cpu=4,mem=1000M,node=1,billing=4".
void ReadAllocated(std::string_view tres, Job& job) {
  for (const std::string_view each : base::Split(tres, ',')) {
    if (each.starts_with("cpu=")) job.cpus = base::ParseInt(each.substr(4)).value_or(0);
    if (each.starts_with("mem=")) job.memory_mib = base::ParseMemoryMib(each.substr(4)).value_or(0);
  }
}

bool IsName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    return (letter >= '0' && letter <= '9') || letter == '_' || letter == '+';
  });
}

std::unexpected<base::Error> NoJob(std::string_view line) {
  return Invalid("unexpected line in squeue's output: {}", base::Printable(line, 100));
}

// Returns the job id at the start of a line, or nothing if there is none.
std::optional<std::int64_t> JobBegunBy(std::string_view line) {
  const std::vector<std::string_view> raw = base::Split(line, '|');
  if (raw.size() < kColumns) return std::nullopt;
  return NumberIn(base::Trim(raw[0]), std::numeric_limits<std::int64_t>::max());
}

Result<Job> ParseJob(std::string_view line) {
  const std::vector<std::string_view> raw = base::Split(line, '|');
  // Every column ends with a separator. The last column may contain separators too.
  if (raw.size() < kColumns + 1 || !base::Trim(raw.back()).empty()) return NoJob(line);
  std::array<std::string_view, kColumns> words;
  std::transform(raw.begin(), raw.begin() + kColumns, words.begin(), base::Trim);
  const std::string_view comment =
      base::Trim(std::string_view(raw[kColumns - 1].data(), raw.back().data() - 1));
  if (std::ranges::any_of(words, [](auto word) { return word.size() > kMostOfWord; }))
    return NoJob(line);
  constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
  const auto id = NumberIn(words[0], std::numeric_limits<std::int64_t>::max());
  const auto restarts = NumberIn(words[6], kMostInt);
  const auto nodes = NumberIn(words[8], kMostInt);
  if (!id || *id == 0 || !restarts || !nodes || !IsName(words[1]) || words[2].empty())
    return NoJob(line);
  Job job{.id = static_cast<std::uint64_t>(*id),
          .name = std::string(words[1]),
          .state = std::string(words[2]),
          .reason = std::string(words[3]),
          .batch = words[4] == "1",
          .requeue = words[5] == "1",
          .restarts = static_cast<int>(*restarts),
          .on_hold = words[14] == "0",
          .nodes = static_cast<int>(*nodes),
          .node_list = std::string(ValueIn(words[9])),
          .asked_nodes = std::string(ValueIn(words[10])),
          .partition = std::string(words[11]),
          .reservation = std::string(ValueIn(words[12])),
          .admin_comment = std::string(ValueIn(comment))};
  ReadGres(words[7], job);
  ReadAllocated(words[13], job);
  return job;
}

}  // namespace

const char* const kJobColumns =
    "JobID:20|,JobArrayID:60|,State:30|,Reason:80|,BatchFlag:4|,Requeue:4|,RestartCnt:12|,"
    "tres-per-node:250|,NumNodes:12|,NodeList:250|,reqnodes:60|,Partition:120|,Reservation:120|,"
    "tres-alloc:250|,PriorityLong:12|,admin_comment:300|";

bool Job::Held() const {
  return Waits() && std::ranges::find(kHeldReasons, reason) != kHeldReasons.end();
}

bool Job::Runs() const {
  return std::ranges::find(kRunningStates, state) != kRunningStates.end();
}

std::string Job::GresWith(std::int64_t gib) const {
  std::string all;
  for (const std::string_view each : base::Split(gres, ',')) {
    if (!each.starts_with(kCarma)) all += std::string(each) + ",";
  }
  return all + std::string(kCarma) + std::to_string(gib);
}

bool Job::MayGoBack() const {
  return state == "RUNNING" || state == "SUSPENDED" ||
         (state == "COMPLETING" && reason == kScriptFailed);
}

Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id) {
  if (text.size() > kMostOfSqueue) return Invalid("squeue's output is too long");
  std::optional<std::string_view> found;
  bool any = false;
  for (const std::string_view line : base::Split(text, '\n')) {
    const std::optional<std::int64_t> number = JobBegunBy(line);
    if (found && number) break;
    // The comment is the last column and may span several lines.
    if (found) found = std::string_view(found->data(), line.data() + line.size());
    if (!number && !any && !base::Trim(line).empty()) return NoJob(line);
    if (number == static_cast<std::int64_t>(id)) found = line;
    any = any || number;
  }
  if (!found) return std::nullopt;
  return ParseJob(base::Trim(*found));
}

}  // namespace carma::slurm
