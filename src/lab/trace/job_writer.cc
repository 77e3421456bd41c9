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

// Replaces bytes that are not text with '?', which also keeps the cell on one line.
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

Result<Unit> WriteJobs(const JobTrace& names, std::size_t count, const std::function<Job()>& next,
                       const Sink& sink) {
  const bool vcs = names.vcs.size() > 1;
  const bool users = names.users.size() > 1;
  const bool workloads = names.workloads.size() > 1;
  const bool wishes = names.wishes.size() > 1;
  std::string text = ProvenanceText(names.provenance, names.start_ms) + "submit_s,gpus,duration_s" +
                     (vcs ? ",vc" : "") + (users ? ",user" : "") + ",status" +
                     (workloads ? ",workload_id" : "") +
                     (wishes ? fmt::format(",{}\n", kWishColumns) : "\n");
  for (std::size_t i = 0; i < count; ++i) {
    const Job job = next();
    text += fmt::format("{},{},", base::Seconds(job.submit), job.gpu_milli / 1000.0);
    if (job.duration) text += SecondsText(*job.duration);
    if (vcs) AppendCell(text, names.vcs.Text(job.vc));
    if (users) AppendCell(text, names.users.Text(job.user));
    text += ',';
    text += JobStatusName(job.status);
    if (workloads) AppendCell(text, names.workloads.Text(job.workload));
    if (wishes) AppendWishes(text, names.wishes.Text(job.wishes));
    text += '\n';
    if (text.size() < kPieceBytes) continue;
    CARMA_TRY(sink(text));
    text.clear();
  }
  return sink(text);
}

Result<Unit> WriteJobs(const JobTrace& trace, const Sink& sink) {
  auto job = trace.jobs.begin();
  const auto next = [&] { return *job++; };
  return WriteJobs(trace, trace.jobs.size(), next, sink);
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
