// Readers for published cluster traces and for CARMA's own format. They convert a stream of bytes
// to a JobTrace. docs/use/traces.md describes the formats column by column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/trace/bytes.h"
#include "lab/trace/job_trace.h"
#include "lab/trace/workloads.h"

namespace carma::trace {

// The names of all formats, for --format, in detection order: "philly", "jobs" …
std::vector<std::string> TraceFormats();

struct ReadOptions {
  std::string_view format;               // one of TraceFormats(); empty: detect it
  bool strict = false;                   // the first complaint is an error
  const Catalogue* catalogue = nullptr;  // for task traces; null: the built-in one
  std::size_t max_jobs = kMaxJobs;
};

// Returns why the header of a table in this format is refused: two columns have the same name, or
// an unknown column resembles a known one that the table lacks. Empty if it is accepted; published
// traces have many columns that CARMA does not read.
std::string HeaderTrouble(const std::vector<std::string>& header, std::string_view format);

// Reads the whole source but stores only jobs and names. Bad lines are counted, reported, and
// skipped or corrected as in Describe(Complaint). With `strict`, returns kInvalid "path:17: …" for
// the first bad line. Returns kInvalid "path: …" if the format is unknown or not recognised, if
// HeaderTrouble() refuses the header, or if there are no jobs, more than max_jobs jobs or more than
// kMaxNames names. Returns kIo if reading fails.
Result<JobTrace> ReadJobs(ByteSource& source, std::string_view path,
                          const ReadOptions& options = {});

}  // namespace carma::trace
