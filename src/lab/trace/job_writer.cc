#include "lab/trace/job_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::trace {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

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
  return fmt::format("{}", base::Seconds(duration));
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

JobWriter::JobWriter(const JobTrace& names, Sink sink) : names_(names), sink_(std::move(sink)) {
  text_ = ProvenanceText(names_.provenance, names_.start_ms) + "submit_s,gpus,duration_s";
  if (names_.vcs.size() > 1) text_ += ",vc";
  if (names_.users.size() > 1) text_ += ",user";
  text_ += ",status";
  if (names_.workloads.size() > 1) text_ += ",workload_id";
  if (names_.wishes.size() > 1) text_ += fmt::format(",{}", kWishColumns);
  text_ += '\n';
}

Result<Unit> JobWriter::Add(const Job& job) {
  text_ += fmt::format("{},{},", base::Seconds(job.submit), job.gpu_milli / 1000.0);
  if (job.duration) text_ += SecondsText(*job.duration);
  if (names_.vcs.size() > 1) AppendCell(text_, names_.vcs.Text(job.vc));
  if (names_.users.size() > 1) AppendCell(text_, names_.users.Text(job.user));
  text_ += ',';
  text_ += JobStatusName(job.status);
  if (names_.workloads.size() > 1) AppendCell(text_, names_.workloads.Text(job.workload));
  if (names_.wishes.size() > 1) AppendWishes(text_, names_.wishes.Text(job.wishes));
  text_ += '\n';
  return text_.size() < kPieceBytes ? Unit{} : Flush();
}

Result<Unit> WriteJobs(const JobTrace& trace, const Sink& sink) {
  JobWriter writer(trace, sink);
  for (const Job& job : trace.jobs) CARMA_TRY(writer.Add(job));
  return writer.Flush();
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
    text += SecondsText(task.at);
    AppendCell(text, task.workload_id);
    if (durations) text += ',';
    if (task.solo_s) text += fmt::format("{}", *task.solo_s);
    if (users) AppendCell(text, task.user);
    if (wishes) AppendWishes(text, WishesText(task));
    text += '\n';
    if (text.size() < kPieceBytes) continue;
    CARMA_TRY(sink(text));
    text.clear();
  }
  return sink(text);
}

}  // namespace carma::trace
