// Writes traces in the formats of the readers and the simulator; identical traces give
// byte-identical output.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/trace/job_trace.h"
#include "lab/trace/task_trace.h"

namespace carma::trace {

// A function that receives the output piece by piece.
using Sink = std::function<Result<Unit>(std::string_view)>;

// Formats comment lines that describe a trace's origin, for the beginning of its file.
std::string ProvenanceText(const std::vector<std::string>& provenance,
                           std::optional<std::int64_t> start_ms);

// Writes CSV with submit_s,gpus,duration_s and, if the trace has them, vc,user,status,workload_id
// and kWishColumns. A share of a GPU is written as 0.25.
Result<Unit> WriteJobs(const JobTrace& trace, const Sink& sink);
// Writes `count` jobs, which `next` returns one at a time, so a generated trace need not fit into
// memory. `names` provides the names behind the jobs' numbers, the provenance and the start time;
// the jobs in `names` are not written.
Result<Unit> WriteJobs(const JobTrace& names, std::size_t count, const std::function<Job()>& next,
                       const Sink& sink);

// Writes CSV with submit_s, workload_id and, if a submission has them, solo_s, user and
// kWishColumns.
Result<Unit> WriteTasks(const TaskTrace& trace, const std::vector<std::string>& provenance,
                        std::optional<std::int64_t> start_ms, const Sink& sink);

// Formats seconds with no more digits than needed: "73", "0.5", "73.042".
std::string SecondsText(base::Duration duration);

}  // namespace carma::trace
