#include "lab/trace/job_collector.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "base/text.h"
#include "core/values/task_request.h"
#include "lab/trace/task_trace.h"

namespace carma::trace {

namespace {

constexpr std::size_t kMaxProvenanceLines = 64;
constexpr std::size_t kMaxProvenanceBytes = 500;
constexpr std::string_view kStartComment = "start: ";

}  // namespace

bool CsvCells::Split(std::string_view line) {
  cells_.clear();
  // The unquoted cells need at most as many bytes as the line, so this buffer is never reallocated.
  unquoted_.clear();
  unquoted_.reserve(line.size());
  for (;;) {
    if (!line.starts_with('"')) {
      const std::size_t comma = line.find(',');
      cells_.push_back(line.substr(0, comma));
      if (comma == std::string_view::npos) return true;
      line.remove_prefix(comma + 1);
      continue;
    }
    const std::size_t from = unquoted_.size();
    for (line.remove_prefix(1);;) {
      const std::size_t quote = line.find('"');
      if (quote == std::string_view::npos) return false;
      unquoted_ += line.substr(0, quote);
      line.remove_prefix(quote + 1);
      if (!line.starts_with('"')) break;
      unquoted_ += '"';
      line.remove_prefix(1);
    }
    cells_.push_back(std::string_view(unquoted_).substr(from));
    if (line.empty()) return true;
    if (line.front() != ',') return false;
    line.remove_prefix(1);
  }
}

JobCollector::JobCollector(std::string_view path, const ReadOptions& options)
    : where_(base::Printable(path)), options_(options) {}

void JobCollector::End(std::string message) {
  if (!error_) error_ = base::Error{ErrorCode::kInvalid, std::move(message)};
}

void JobCollector::Complain(Complaint complaint, std::int64_t line, std::string_view value) {
  trace_.complaints.Add(complaint, where_, line, value);
  if (options_.strict) End(trace_.complaints.told().front() + " (not with --strict)");
}

std::uint32_t JobCollector::NumberOf(Names& names, std::string_view name) {
  const std::optional<std::uint32_t> number = names.Number(name.substr(0, kMaxNameBytes));
  if (!number)
    End(fmt::format("{}: more than {} different users, clusters or workloads", where_, kMaxNames));
  return number.value_or(0);
}

void JobCollector::SetStatus(Job& job, std::string_view word) {
  const std::optional<JobStatus> status = ParseJobStatus(word);
  if (!status) return Complain(Complaint::kStatus, job.line, word);
  job.status = *status;
}

void JobCollector::SetWishes(Job& job, const std::array<std::string_view, 4>& cells) {
  const auto& [account, qos, cpus, gpu_type] = cells;
  const bool any = base::ToLower(gpu_type) == "any";
  const std::string row = fmt::format("{},{},{},{}", account, qos, cpus, any ? "" : gpu_type);
  const double cores = cpus.empty() ? 0 : base::ParseDouble(cpus).value_or(-1);
  const auto is_name = [](std::string_view name) {
    return name.empty() || core::IsShareName(name);
  };
  if (!is_name(account) || !is_name(qos) || cores < 0 || cores > kMaxWorkloadCpus ||
      !(gpu_type.empty() || core::IsGpuTypeWord(gpu_type)))
    return Complain(Complaint::kWishes, job.line, row);
  if (row != ",,,") job.wishes = NumberOf(trace_.wishes, row);
}

bool JobCollector::SetSubmit(Job& job, std::optional<double> milliseconds, std::string_view text) {
  constexpr auto kLatest = static_cast<double>(kMaxJobSubmit.count());
  if (!milliseconds || !(*milliseconds >= 0) || *milliseconds > kLatest) {
    Complain(Complaint::kSubmit, job.line, text);
    return false;
  }
  job.submit = base::Duration(std::llround(*milliseconds));
  return true;
}

bool JobCollector::SetGpus(Job& job, std::optional<double> gpus, std::string_view text) {
  if (!gpus && text.empty()) {
    Complain(Complaint::kGpusMissing, job.line, {});
    return false;
  }
  const double milli = std::round(gpus.value_or(-1) * 1000);
  if (!(milli >= 0) || milli > kMaxJobGpus * 1000.0 || (*gpus > 0 && milli < 1)) {
    Complain(Complaint::kGpus, job.line, text);
    return false;
  }
  job.gpu_milli = static_cast<std::int32_t>(milli);
  if (job.gpu_milli == 0) ++trace_.cpu_jobs;
  return job.gpu_milli > 0;
}

void JobCollector::SetDuration(Job& job, std::optional<double> seconds, std::string_view text) {
  if (!seconds && text.empty()) return Complain(Complaint::kDurationMissing, job.line, {});
  if (!seconds || !(*seconds >= 0) || *seconds > base::Seconds(kMaxJobDuration))
    return Complain(Complaint::kDuration, job.line, text);
  job.duration = base::Duration(std::llround(*seconds * 1000));
}

void JobCollector::CheckOrder(const Job& job, std::string_view text) {
  if (job.submit < last_submit_) Complain(Complaint::kOrder, job.line, text);
  last_submit_ = job.submit;
}

void JobCollector::Add(const Job& job) {
  if (trace_.jobs.size() >= options_.max_jobs) {
    return End(fmt::format("{}: more than {} jobs with GPUs; use part of the file", where_,
                           options_.max_jobs));
  }
  trace_.jobs.push_back(job);
}

Job* JobCollector::Known(std::string_view name) {
  const std::size_t key = std::hash<std::string_view>()(name);
  const auto [found, fresh] = places_.try_emplace(key, trace_.jobs.size());
  return fresh ? nullptr : &trace_.jobs[found->second];
}

void JobCollector::Comment(std::string_view text, std::int64_t line) {
  text = base::Trim(text);
  if (text.starts_with(kStartComment)) {
    text.remove_prefix(kStartComment.size());
    trace_.start_ms = ParseLocalTime(text);
    if (!trace_.start_ms) Complain(Complaint::kStart, line, text);
  } else if (!text.empty() && trace_.provenance.size() < kMaxProvenanceLines) {
    trace_.provenance.push_back(base::Printable(text, kMaxProvenanceBytes));
  }
}

Result<JobTrace> JobCollector::Finish(std::string_view format, LineReader& lines, bool dated,
                                      std::optional<std::int64_t> clock) {
  if (error_) return std::unexpected(*error_);
  if (trace_.jobs.empty()) {
    std::string why = "no jobs use GPUs";
    if (trace_.complaints.total() > 0) why += "; the first problem: " + trace_.complaints.told()[0];
    return Invalid(where_ + ": " + why);
  }
  const auto earlier = [](const Job& a, const Job& b) {
    return a.submit != b.submit ? a.submit < b.submit : a.line < b.line;
  };
  if (!std::is_sorted(trace_.jobs.begin(), trace_.jobs.end(), earlier))
    std::ranges::sort(trace_.jobs, earlier);
  trace_.format = format;
  if (dated) trace_.start_ms = clock;
  // If even the first job's time is more than a year, the times count from 1970, not from the start
  // of the trace.
  if (dated || trace_.jobs.front().submit > kMaxSubmission) StartAtFirstJob(trace_);
  trace_.sha256 = lines.Sha256Hex();
  return std::move(trace_);
}

}  // namespace carma::trace
