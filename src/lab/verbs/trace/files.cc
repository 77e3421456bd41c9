#include "lab/verbs/trace/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "lab/trace/bytes.h"
#include "lab/trace/job_reader.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxFileBytes = 64 << 20;
constexpr const char* kBuiltIn = "demo60";

bool IsBuiltIn(const std::string& path) {
  return path == kBuiltIn && !base::Exists(path);
}

Result<trace::JobTrace> ReadFrom(const JobSource& source, const trace::ReadOptions& options) {
  if (IsBuiltIn(source.path)) {
    trace::TextSource text(trace::kDemo60Csv);
    return trace::ReadJobs(text, source.path, options);
  }
  Result<trace::FileSource> file = trace::FileSource::Open(source.path);
  if (!file) return std::unexpected(NamedWrongly(file.error()));
  return trace::ReadJobs(*file, InputName(source.path), options);
}

void WarnOf(Context& context, const trace::Complaints& complaints, const std::string& path) {
  for (const std::string& told : complaints.told()) Warn(context, told);
  if (complaints.total() == complaints.told().size()) return;
  std::string counts;
  for (const auto& [kind, count] : complaints.counts()) {
    const trace::ComplaintText& text = trace::Describe(kind);
    counts += fmt::format("{}{} ({}; {})", counts.empty() ? "" : ", ", text.what,
                          base::Counted(count, "time"), text.remedy);
  }
  Warn(context, fmt::format("{}: {} problems: {}", path, complaints.total(), counts));
}

// Converts the jobs to submissions of their workloads. Returns kInvalid if a job has an unknown
// workload.
Result<trace::TaskTrace> TasksOf(const LoadedJobs& loaded) {
  trace::TaskTrace tasks;
  tasks.submissions.reserve(loaded.trace.jobs.size());
  for (const trace::Job& job : loaded.trace.jobs) {
    const std::string& id = loaded.trace.workloads.Text(job.workload);
    const Result<const trace::Workload*> workload = loaded.catalogue.Find(id);
    if (!workload) {
      return Invalid((id.empty() ? "a job does not name a workload" : workload.error().message) +
                     "; carma trace map assigns one to every job");
    }
    trace::Submission task{.at = job.submit, .workload_id = id, .line = job.line};
    if (loaded.trace.users.size() > 1) task.user = loaded.trace.users.Text(job.user);
    const base::Duration solo(std::llround((*workload)->solo_s * 1000));
    if (job.duration && *job.duration > base::Duration(0) && *job.duration != solo)
      task.solo_s = base::Seconds(*job.duration);
    trace::SetWishes(task, loaded.trace.wishes.Text(job.wishes));
    tasks.submissions.push_back(std::move(task));
  }
  return tasks;
}

// Paths of the folder's files, by lower-case name.
Result<std::map<std::string, std::string>> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator each(folder, error);
  if (error) return FailErrno(error.value(), folder);
  for (; each != std::filesystem::directory_iterator(); each.increment(error))
    files[base::ToLower(each->path().filename().string())] = each->path().string();
  return files;
}

}  // namespace

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.starts_with('/')) return path;
  char folder[4096];
  if (!::getcwd(folder, sizeof folder)) return FailErrno(errno, "current folder");
  return std::string(folder) + "/" + path;
}

Result<trace::TaskTrace> LoadTaskTrace(const std::string& path) {
  if (IsBuiltIn(path)) return trace::BuiltInDemo60();
  const std::string text = CARMA_TRY(path == "-" ? base::ReadAll(STDIN_FILENO, kMaxFileBytes)
                                                 : ReadNamed(path, kMaxFileBytes));
  return trace::ParseTrace(text, InputName(path));
}

Result<trace::Catalogue> LoadCatalogue(const std::string& path) {
  if (path.empty()) return trace::Catalogue::BuiltIn();
  const std::string text = CARMA_TRY(ReadNamed(path, kMaxFileBytes));
  return trace::Catalogue::Parse(text, path);
}

Result<LoadedJobs> LoadJobs(Context& context, const JobSource& source) {
  trace::Catalogue catalogue = CARMA_TRY(LoadCatalogue(source.workloads));
  trace::JobTrace trace = CARMA_TRY(ReadFrom(
      source, {.format = source.format, .strict = source.strict, .catalogue = &catalogue}));
  WarnOf(context, trace.complaints, InputName(source.path));
  return LoadedJobs{std::move(trace), std::move(catalogue)};
}

std::string MadeBy(const Context& context, std::string_view command, const JobSource& source,
                   const trace::JobTrace& trace) {
  return fmt::format("made by carma {}: trace {} from {} ({}, sha256 {})", context.version, command,
                     base::Printable(InputName(source.path)), trace.format, trace.sha256);
}

trace::Sink OutputOf(Context& context) {
  return [&context](std::string_view piece) -> Result<Unit> {
    if (std::fwrite(piece.data(), 1, piece.size(), context.out) == piece.size()) return Unit{};
    return FailErrno(errno, "write output");
  };
}

Result<Unit> PrintTrace(Context& context, const LoadedJobs& loaded, std::string_view format) {
  const trace::Sink out = OutputOf(context);
  if (format != kTaskFormat) return trace::WriteJobs(loaded.trace, out);
  const trace::TaskTrace tasks = CARMA_TRY(TasksOf(loaded));
  return trace::WriteTasks(tasks, loaded.trace.provenance, loaded.trace.start_ms, out);
}

Result<LoadedSummaries> LoadSummaries(const trace::Catalogue& catalogue,
                                      const std::string& folder) {
  const std::map<std::string, std::string> files = CARMA_TRY(FilesOf(folder));
  std::map<std::string, estimate::Summary> read;  // many workloads name the same file
  LoadedSummaries loaded;
  for (const auto& [id, workload] : catalogue.workloads()) {
    const auto file = files.find(base::ToLower(workload.summary_file));
    if (workload.summary_file.empty() || file == files.end()) {
      loaded.troubles.push_back(id + (workload.summary_file.empty()
                                          ? ": the catalogue does not name a summary file"
                                          : ": no file " + workload.summary_file));
      continue;
    }
    const auto [entry, is_new] = read.try_emplace(file->second);
    estimate::Summary& summary = entry->second;
    if (is_new) {
      summary = estimate::ReadSummary(base::ReadFile(file->second, model::kMaxSummaryBytes),
                                      file->second);
    }
    if (!summary.layers) loaded.troubles.push_back(id + ": " + summary.trouble);
    loaded.by_workload[id] = summary;
  }
  return loaded;
}

}  // namespace carma::cli
