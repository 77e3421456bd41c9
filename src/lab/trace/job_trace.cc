#include "lab/trace/job_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace carma::trace {
namespace {

constexpr std::array<ComplaintText, kComplaintKinds> kComplaintTexts{{
    {"torn", "truncated line", "skipped"},
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
}};

constexpr std::array<std::string_view, 6> kStatusNames{"",       "passed",  "failed",
                                                       "killed", "running", "pending"};

struct StatusWord {
  std::string_view word;
  JobStatus status;
};
constexpr std::array kStatusWords{
    // CARMA's own words
    StatusWord{"passed", JobStatus::kPassed}, StatusWord{"failed", JobStatus::kFailed},
    StatusWord{"killed", JobStatus::kKilled}, StatusWord{"running", JobStatus::kRunning},
    StatusWord{"pending", JobStatus::kPending},
    // Philly
    StatusWord{"pass", JobStatus::kPassed},
    // Slurm, as in Helios
    StatusWord{"completed", JobStatus::kPassed}, StatusWord{"cancelled", JobStatus::kKilled},
    StatusWord{"timeout", JobStatus::kKilled}, StatusWord{"node_fail", JobStatus::kFailed},
    StatusWord{"out_of_memory", JobStatus::kFailed}, StatusWord{"preempted", JobStatus::kKilled},
    StatusWord{"suspended", JobStatus::kRunning},
    // Alibaba
    StatusWord{"terminated", JobStatus::kPassed}, StatusWord{"waiting", JobStatus::kPending},
    StatusWord{"succeeded", JobStatus::kPassed}};

bool SameWord(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

// Parses a fixed-width number; -1 unless all characters are digits.
int Digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::string_view JobStatusName(JobStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::optional<JobStatus> ParseJobStatus(std::string_view word) {
  for (const StatusWord& known : kStatusWords) {
    if (SameWord(word, known.word)) return known.status;
  }
  return std::nullopt;
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

void Complaints::Add(Complaint complaint, std::int64_t line, std::string_view value) {
  ++total_;
  if (++counts_[static_cast<std::size_t>(complaint)] > kToldOfEach) return;
  const ComplaintText& text = Describe(complaint);
  told_.push_back(fmt::format("{}:{}: {}{}; {}", base::Printable(path_), line, text.what,
                              value.empty() ? "" : ": '" + base::Printable(value, 60) + "'",
                              text.remedy));
}

std::optional<std::int64_t> ParseLocalTime(std::string_view text) {
  constexpr std::size_t kSeconds = 19;  // length up to the whole seconds
  if (text.size() < kSeconds || text.size() > 32) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':') {
    return std::nullopt;
  }
  const int hour = Digits(text.substr(11, 2));
  const int minute = Digits(text.substr(14, 2));
  const int second = Digits(text.substr(17, 2));
  const int year = Digits(text.substr(0, 4));
  const int month = Digits(text.substr(5, 2));
  const int day_of_month = Digits(text.substr(8, 2));
  if (year < 1970 || month < 0 || day_of_month < 0 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day day{std::chrono::year(year),
                                        std::chrono::month(static_cast<unsigned>(month)),
                                        std::chrono::day(static_cast<unsigned>(day_of_month))};
  if (!day.ok()) return std::nullopt;
  std::string_view rest = text.substr(kSeconds);
  if (rest.ends_with('Z')) rest.remove_suffix(1);
  const bool fraction = rest.size() > 1 && rest[0] == '.' &&
                        rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!rest.empty() && !fraction) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return ((std::int64_t{days} * 24 + hour) * 60 + minute) * 60'000 + std::int64_t{second} * 1000;
}

std::string FormatLocalTime(std::int64_t ms) {
  const std::chrono::sys_time<std::chrono::seconds> time(
      std::chrono::floor<std::chrono::seconds>(std::chrono::milliseconds(ms)));
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day day(days);
  const std::chrono::hh_mm_ss clock(time - days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

void StartAtFirstJob(JobTrace& trace) {
  if (trace.jobs.empty()) return;
  const base::Duration first = trace.jobs.front().submit;
  for (Job& job : trace.jobs) job.submit -= first;
  if (trace.start_ms) *trace.start_ms += first.count();
}

}  // namespace carma::trace
