// Runs the subverbs of `carma trace`; command.cc defines their options and reports their errors.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "lab/trace/job_generator.h"
#include "lab/trace/job_sample.h"
#include "lab/verbs/trace/files.h"

namespace carma::cli {

struct ReplayFlags {
  std::string trace;
  std::string workloads;  // empty: the built-in catalogue
  std::string estimate = "oracle";
  std::vector<std::string> memory;  // memory that individual tasks request: "38=6G"
  std::string simtask;              // empty: look in this program's folder
  std::string output_dir;           // empty: ./carma-replay
  bool wait = false;
  bool progress = false;
  bool parsable = false;
  bool quiet = false;
};
Result<Unit> RunTraceReplay(Context& context, const ReplayFlags& flags);

Result<Unit> RunTraceInfo(Context& context, const JobSource& source);

struct WindowFlags {
  JobSource source;
  std::string from;  // "36h" since the trace's start, or a date; empty: the start of the trace
  std::string to;    // exclusive; empty: the end of the trace
  std::string vc;    // empty: all virtual clusters
  std::string user;
  std::optional<int> max_gpus;
};
Result<Unit> RunTraceWindow(Context& context, const WindowFlags& flags);

struct SampleFlags : trace::SampleOptions {
  JobSource source;
};
Result<Unit> RunTraceSample(Context& context, const SampleFlags& flags);

struct MapFlags {
  JobSource source;
  std::string mix;
  bool keep_durations = false;
  std::string users = "user";  // or "vc"
  std::uint64_t seed = 1;
};
Result<Unit> RunTraceMap(Context& context, const MapFlags& flags);

struct GenerateFlags : trace::GeneratorOptions {
  JobSource fit;  // empty path: built-in defaults
  std::size_t tasks = 60;
};
Result<Unit> RunTraceGenerate(Context& context, const GenerateFlags& flags);

struct ExportFlags {
  JobSource source;  // empty path: the daemon's history
  std::string user;  // owner of the daemon's tasks; empty: all users
  std::string as = "jobs";
  std::string estimate;  // empty: oracle
  std::string command;   // empty: carma-simtask for workloads, sleep for other jobs
};
Result<Unit> RunTraceExport(Context& context, const ExportFlags& flags);

}  // namespace carma::cli
