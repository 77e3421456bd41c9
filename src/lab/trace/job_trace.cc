#include "lab/trace/job_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"

namespace carma::trace {
namespace {

constexpr ComplaintText kComplaintTexts[] = {
    {"torn", "truncated line", "skipped"},
    {"too_many", "more values than columns (is there a comma at the end?)", "skipped"},
    {"too_long", "line longer than 64 KiB", "skipped"},
    {"submit", "no usable submission time", "skipped"},
    {"gpus_missing", "no GPU count", "skipped"},
    {"gpus", "invalid GPU count", "skipped"},
    {"duration_missing", "no duration", "job kept without a duration"},
    {"duration", "invalid duration", "job kept without a duration"},
    {"order", "submitted before the job on the line above", "sorted into place"},
    {"status", "unknown status", "job kept without a status"},
    {"workload", "unknown or unusable workload", "skipped"},
    {"wishes", "invalid account, qos, cpus or gpu_type", "task kept without these values"},
    {"start", "invalid start", "ignored (expected local time, such as 2020-03-01T00:00:00)"},
};

// For each status, CARMA's own word comes first.
constexpr std::pair<JobStatus, std::string_view> kStatusWords[] = {
    {JobStatus::kUnknown, ""},
    {JobStatus::kPassed, "passed"},
    {JobStatus::kFailed, "failed"},
    {JobStatus::kKilled, "killed"},
    {JobStatus::kRunning, "running"},
    {JobStatus::kPending, "pending"},
    // Philly
    {JobStatus::kPassed, "pass"},
    // Slurm, as in Helios
    {JobStatus::kPassed, "completed"},
    {JobStatus::kKilled, "cancelled"},
    {JobStatus::kKilled, "timeout"},
    {JobStatus::kFailed, "node_fail"},
    {JobStatus::kFailed, "out_of_memory"},
    {JobStatus::kKilled, "preempted"},
    {JobStatus::kRunning, "suspended"},
    // Alibaba
    {JobStatus::kPassed, "terminated"},
    {JobStatus::kPending, "waiting"},
    {JobStatus::kPassed, "succeeded"},
};

}  // namespace
}  // namespace carma::trace

template <>
inline constexpr carma::base::Words<carma::trace::JobStatus>
    carma::base::kWordsOf<carma::trace::JobStatus> = carma::trace::kStatusWords;

namespace carma::trace {

std::string_view JobStatusName(JobStatus status) {
  return base::WordOf(status);
}

std::optional<JobStatus> ParseJobStatus(std::string_view word) {
  return base::FromWord<JobStatus>(base::ToLower(word));
}

std::optional<std::uint32_t> Names::Number(std::string_view name) {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (texts_.size() > kMaxNames) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.push_back(&numbers_.emplace(name, number).first->first);
  return number;
}

const ComplaintText& Describe(Complaint complaint) {
  return kComplaintTexts[static_cast<std::size_t>(complaint)];
}

void Complaints::Add(Complaint complaint, std::string_view where, std::int64_t line,
                     std::string_view value) {
  ++total_;
  if (++counts_[complaint] > kToldOfEach) return;
  const ComplaintText& text = Describe(complaint);
  told_.push_back(fmt::format("{}:{}: {}{}; {}", where, line, text.what,
                              value.empty() ? "" : ": '" + base::Printable(value, 60) + "'",
                              text.remedy));
}

std::optional<std::int64_t> ParseLocalTime(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00 00:00:00";  // 0: any digit
  if (text.size() < kForm.size() || text.size() > 32) return std::nullopt;
  const bool fits = std::ranges::equal(text.substr(0, kForm.size()), kForm, [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form || (form == ' ' && c == 'T');
  });
  if (!fits) return std::nullopt;
  std::string_view rest = text.substr(kForm.size());
  if (rest.ends_with('Z')) rest.remove_suffix(1);
  const bool fraction = rest.size() > 1 && rest[0] == '.' &&
                        rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!rest.empty() && !fraction) return std::nullopt;
  const auto number = [&](std::size_t from, std::size_t size) {
    return static_cast<int>(*base::ParseInt(text.substr(from, size)));
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const std::chrono::hours hour(number(11, 2));
  const std::chrono::minutes minute(number(14, 2));
  const std::chrono::seconds second(number(17, 2));
  if (!day.ok() || number(0, 4) < 1970 || hour.count() > 23 || minute.count() > 59 ||
      second.count() > 60) {
    return std::nullopt;
  }
  const base::Duration time =
      std::chrono::sys_days(day).time_since_epoch() + hour + minute + second;
  return time.count();
}

std::string FormatLocalTime(std::int64_t ms) {
  std::string text = base::FormatTimeIso(base::FromMs(ms));
  text.resize(text.find('.'));  // without the milliseconds and the Z
  return text;
}

void StartAtFirstJob(JobTrace& trace) {
  if (trace.jobs.empty()) return;
  const base::Duration first = trace.jobs.front().submit;
  for (Job& job : trace.jobs) job.submit -= first;
  if (trace.start_ms) *trace.start_ms += first.count();
}

}  // namespace carma::trace
