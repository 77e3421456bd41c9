#include "lab/trace/job_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/text.h"

namespace carma::trace {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

// Appends thousandths as a decimal number.
void AppendMilli(std::string& text, std::int64_t milli) {
  fmt::format_to(std::back_inserter(text), "{}", milli / 1000);
  if (milli % 1000 == 0) return;
  fmt::format_to(std::back_inserter(text), ".{:03}", milli % 1000);
  while (text.back() == '0') text.pop_back();
}

// wishes: a string from WishesText.
void AppendWishes(std::string& text, std::string_view wishes) {
  text += wishes.empty() ? ",,,," : fmt::format(",{}", wishes);
}

// Keeps the cell on one line: bytes that are not text become '?'.
void AppendCell(std::string& text, std::string_view name) {
  text += ',';
  text += base::CsvCell(base::Printable(name, kMaxNameBytes));
}

}  // namespace

std::string SecondsText(base::Duration duration) {
  std::string text;
  AppendMilli(text, duration.count());
  return text;
}

std::string ProvenanceText(const std::vector<std::string>& provenance,
                           std::optional<std::int64_t> start_ms) {
  std::string text;
  for (const std::string& line : provenance) text += "# " + line + "\n";
  if (start_ms) text += "# start: " + FormatLocalTime(*start_ms) + "\n";
  return text;
}

Result<Unit> JobWriter::Flush() {
  Result<Unit> taken = sink_(text_);
  text_.clear();
  return taken;
}

Result<Unit> JobWriter::Begin() {
  text_ = ProvenanceText(names_.provenance, names_.start_ms) + "submit_s,gpus,duration_s";
  if (names_.vcs.size() > 1) text_ += ",vc";
  if (names_.users.size() > 1) text_ += ",user";
  text_ += ",status";
  if (names_.workloads.size() > 1) text_ += ",workload_id";
  if (names_.wishes.size() > 1) text_ += fmt::format(",{}", kWishColumns);
  text_ += '\n';
  return Flush();
}

Result<Unit> JobWriter::Add(const Job& job) {
  AppendMilli(text_, job.submit.count());
  text_ += ',';
  AppendMilli(text_, job.gpu_milli);
  text_ += ',';
  if (job.duration) AppendMilli(text_, job.duration->count());
  if (names_.vcs.size() > 1) AppendCell(text_, names_.vcs.Text(job.vc));
  if (names_.users.size() > 1) AppendCell(text_, names_.users.Text(job.user));
  text_ += ',';
  text_ += JobStatusName(job.status);
  if (names_.workloads.size() > 1) AppendCell(text_, names_.workloads.Text(job.workload));
  if (names_.wishes.size() > 1) AppendWishes(text_, names_.wishes.Text(job.wishes));
  text_ += '\n';
  return text_.size() < kPieceBytes ? Unit{} : Flush();
}

Result<Unit> JobWriter::End() {
  return Flush();
}

Result<Unit> WriteJobs(const JobTrace& trace, const Sink& sink) {
  JobWriter writer(trace, sink);
  Result<Unit> done = writer.Begin();
  for (auto job = trace.jobs.begin(); done && job != trace.jobs.end(); ++job)
    done = writer.Add(*job);
  return done ? writer.End() : done;
}

Result<Unit> WriteTasks(const TaskTrace& trace, const std::vector<std::string>& provenance,
                        std::optional<std::int64_t> start_ms, const Sink& sink) {
  const bool durations = std::ranges::any_of(
      trace.submissions, [](const Submission& task) { return task.solo_s.has_value(); });
  const bool users = std::ranges::any_of(trace.submissions,
                                         [](const Submission& task) { return !task.user.empty(); });
  const bool wishes = std::ranges::any_of(
      trace.submissions, [](const Submission& task) { return !WishesText(task).empty(); });
  std::string text = ProvenanceText(provenance, start_ms) + "submit_s,workload_id" +
                     (durations ? ",solo_s" : "") + (users ? ",user" : "") +
                     (wishes ? fmt::format(",{}\n", kWishColumns) : "\n");
  for (const Submission& task : trace.submissions) {
    AppendMilli(text, task.at.count());
    AppendCell(text, task.workload_id);
    if (durations) text += ',';
    if (task.solo_s) text += fmt::format("{}", *task.solo_s);
    if (users) AppendCell(text, task.user);
    if (wishes) AppendWishes(text, WishesText(task));
    text += '\n';
    if (text.size() < kPieceBytes) continue;
    if (Result<Unit> taken = sink(text); !taken) return taken;
    text.clear();
  }
  return sink(text);
}

}  // namespace carma::trace
