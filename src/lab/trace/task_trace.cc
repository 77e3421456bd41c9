#include "lab/trace/task_trace.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"
#include "core/values/task_request.h"
#include "lab/trace/job_reader.h"

namespace carma::trace {

Result<TaskTrace> ParseTrace(std::string_view csv, std::string_view path) {
  const std::string where = base::Printable(path);
  const Result<base::CsvTable> table =
      base::CsvTable::Parse(csv, {"submit_s", "workload_id"}, kMaxTraceTasks, where);
  if (!table) {
    const bool other = !csv.substr(0, csv.find('\n')).contains("workload_id");
    return Fail(table.error().code,
                table.error().message +
                    (other ? " (for a cluster trace, run 'carma trace map' first)" : ""));
  }
  if (const std::string trouble = HeaderTrouble(table->header(), "tasks"); !trouble.empty())
    return Invalid(where + ": " + trouble);
  if (table->size() == 0) return Invalid(where + ": no tasks");
  // A job table may name workloads too. Without this error, the catalogue's durations would
  // silently replace those in the table.
  if (table->HasColumn("duration_s") && !table->HasColumn("solo_s"))
    return Invalid(where +
                   ": column 'duration_s' would be ignored; call it 'solo_s', or run "
                   "'carma trace map --keep-durations'");
  TaskTrace trace;
  trace.submissions.reserve(table->size());
  for (std::size_t i = 0; i < table->size(); ++i) {
    const base::CsvRow row = table->Row(i);
    const auto text = [&](const char* column) { return std::string(base::Trim(row.Text(column))); };
    const double submit_s = CARMA_TRY(row.Required("submit_s", 0, base::Seconds(kMaxSubmission)));
    const std::optional<double> solo_s = CARMA_TRY(row.Number("solo_s", kMinSoloS, kMaxSoloS));
    const std::optional<double> cpus = CARMA_TRY(row.Number("cpus", 0, kMaxWorkloadCpus));
    Submission submission{.at = base::Duration(std::llround(submit_s * 1000)),
                          .workload_id = text("workload_id"),
                          .line = row.line(),
                          .solo_s = solo_s,
                          .user = text("user"),
                          .cpus = cpus,
                          .gpu_type = text("gpu_type"),
                          .qos = text("qos"),
                          .account = text("account")};
    for (const auto& [column, name] :
         {std::pair("qos", &submission.qos), std::pair("account", &submission.account)}) {
      if (!name->empty() && !core::IsShareName(*name))
        return row.Wrong(fmt::format(
            "column '{}': expected 1 to 64 characters: letters, digits, '_', '-', '+' or '.'",
            column));
    }
    if (base::ToLower(submission.gpu_type) == "any") submission.gpu_type.clear();
    if (!submission.gpu_type.empty() && !core::IsGpuTypeWord(submission.gpu_type))
      return row.Wrong("column 'gpu_type': expected part of a GPU name");
    if (submission.workload_id.empty()) return row.Wrong("column 'workload_id' is empty");
    if (!trace.submissions.empty() && submission.at < trace.submissions.back().at)
      return row.Wrong("submit_s is earlier than on the line above");
    trace.submissions.push_back(std::move(submission));
  }
  return trace;
}

std::string WishesText(const Submission& task) {
  std::string text = fmt::format("{},{},{},{}", task.account, task.qos,
                                 task.cpus ? fmt::format("{}", *task.cpus) : "", task.gpu_type);
  return text == ",,," ? "" : text;
}

void SetWishes(Submission& task, std::string_view text) {
  const std::vector<std::string_view> cells = base::Split(text, ',');
  if (cells.size() != 4) return;
  task.account = cells[0];
  task.qos = cells[1];
  task.cpus = base::ParseDouble(cells[2]);
  task.gpu_type = cells[3];
}

Result<TaskTrace> BuiltInDemo60() {
  return ParseTrace(kDemo60Csv, "demo60");
}

Result<std::vector<const Workload*>> MatchWorkloads(const TaskTrace& trace,
                                                    const Catalogue& catalogue,
                                                    std::string_view path) {
  std::vector<const Workload*> workloads;
  workloads.reserve(trace.submissions.size());
  for (const Submission& submission : trace.submissions) {
    const Result<const Workload*> workload = catalogue.Find(submission.workload_id);
    if (!workload) {
      return Invalid("{}:{}: {}", base::Printable(path), submission.line, workload.error().message);
    }
    workloads.push_back(*workload);
  }
  return workloads;
}

Workload AsSubmitted(const Workload& workload, const Submission& submission) {
  Workload played = workload;
  if (submission.solo_s) played.solo_s = *submission.solo_s;
  if (submission.cpus) played.cpus = submission.cpus;
  return played;
}

}  // namespace carma::trace
