// Loads traces and catalogues for the verbs from files, from standard input or from the built-in
// data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "lab/sim/simulate.h"
#include "lab/trace/job_trace.h"
#include "lab/trace/job_writer.h"
#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"

namespace carma::cli {

// Makes a relative path absolute, based on the current folder. Returns kNotFound if that folder
// does not exist.
Result<std::string> AbsolutePath(const std::string& path);
// "demo60" means the built-in trace unless a file has that name. Returns any error from
// trace::ParseTrace or from reading the file.
Result<trace::TaskTrace> LoadTaskTrace(const std::string& path);
// Loads the built-in catalogue if `path` is empty.
Result<trace::Catalogue> LoadCatalogue(const std::string& path);

// Where a cluster trace's jobs come from.
struct JobSource {
  std::string path;       // "-": standard input; "demo60"
  std::string format;     // empty: detect it
  std::string workloads;  // catalogue for task traces; empty: the built-in one
  bool strict = false;    // bad lines are errors
};
struct LoadedJobs {
  trace::JobTrace trace;
  trace::Catalogue catalogue;
};
// Warns about the first bad lines of each kind; if there are more, also gives the counts.
Result<LoadedJobs> LoadJobs(Context& context, const JobSource& source);

// Provenance of a trace: the command that made it and the command's input:
//   made by carma 0.1.0: trace sample --gpus 4 from philly.json (philly, sha256 …)
std::string MadeBy(const Context& context, std::string_view command, const JobSource& source,
                   const trace::JobTrace& trace);

trace::Sink OutputOf(Context& context);

inline constexpr std::string_view kTaskFormat = "tasks";  // of trace::TraceFormats()
// Prints the trace as a task trace if `format` is kTaskFormat, otherwise as jobs. Returns kInvalid
// if a job of a task trace has an unknown workload.
Result<Unit> PrintTrace(Context& context, const LoadedJobs& loaded, std::string_view format);

// The model summaries of a catalogue's workloads.
struct LoadedSummaries {
  sim::Summaries by_workload;
  std::vector<std::string> troubles;  // "bert: the catalogue does not name a summary file" …
};
// Reads each workload's file in `folder`; the case of file names is ignored. Unreadable files are
// listed in `troubles`. Returns kNotFound if the folder does not exist.
Result<LoadedSummaries> LoadSummaries(const trace::Catalogue& catalogue, const std::string& folder);

}  // namespace carma::cli
