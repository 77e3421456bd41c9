// Common parts of the format readers: a splitter for CSV lines, and a collector of jobs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "lab/trace/job_reader.h"
#include "lab/trace/job_trace.h"

namespace carma::trace {

// Splits a CSV line into cells. Double quotes work as in RFC 4180, except that a quoted cell cannot
// contain a line end.
class CsvCells {
 public:
  // Returns false if a quote is not closed. The cells are valid until the next call, and only while
  // `line` exists.
  bool Split(std::string_view line);
  std::size_t size() const { return cells_.size(); }
  std::string_view operator[](std::size_t i) const { return cells_[i]; }

 private:
  std::vector<std::string_view> cells_;
  std::string unquoted_;  // text of cells that contain doubled quotes
};

// Collects the trace job by job and checks its invariants.
class JobCollector {
 public:
  JobCollector(std::string_view path, const ReadOptions& options);

  // Records a complaint about a line.
  void Complain(Complaint complaint, std::int64_t line, std::string_view value);
  // word: the format's word for the status; empty if there is none.
  void SetStatus(Job& job, std::string_view word);
  void SetUser(Job& job, std::string_view name) { job.user = NumberOf(trace_.users, name); }
  void SetVc(Job& job, std::string_view name) { job.vc = NumberOf(trace_.vcs, name); }
  void SetWorkload(Job& job, std::string_view name) {
    job.workload = NumberOf(trace_.workloads, name);
  }
  // cells: values of kWishColumns. Records a complaint about each invalid value.
  void SetWishes(Job& job, const std::array<std::string_view, 4>& cells);
  // Records a complaint and returns false unless the time is between zero and kMaxJobSubmit.
  bool SetSubmit(Job& job, std::optional<double> milliseconds, std::string_view text);
  // Records a complaint and returns false unless this is a valid number of GPUs. Also returns false
  // for a job without GPUs, and counts it as a CPU job.
  bool SetGpus(Job& job, std::optional<double> gpus, std::string_view text);
  // Sets the duration in seconds; records a complaint if it is missing or invalid.
  void SetDuration(Job& job, std::optional<double> seconds, std::string_view text);
  // Adds a job. Jobs are numbered in the order of their lines in the trace.
  void Add(const Job& job);
  // Returns the job that was added under this name, so the caller can change it. If there is none,
  // returns null, and the next job added gets this name.
  Job* Known(std::string_view name);
  // text: a comment line without its '#'. It contains provenance or the start date.
  void Comment(std::string_view text, std::int64_t line);
  // Call this if the format guarantees that lines are in chronological order.
  void CheckOrder(const Job& job, std::string_view text);

  const ReadOptions& options() const { return options_; }
  // The path of the trace, used in messages.
  const std::string& where() const { return where_; }
  // The error that stops reading: an exceeded limit, or with `strict` the first complaint.
  const std::optional<base::Error>& error() const { return error_; }

  // Sorts and returns the trace. dated: true if submissions are in ms since 1970; they are then
  // shifted to start at 0. clock: the time of day at time 0, in ms since 1970; empty if unknown.
  Result<JobTrace> Finish(std::string_view format, LineReader& lines, bool dated,
                          std::optional<std::int64_t> clock);

 private:
  std::uint32_t NumberOf(Names& names, std::string_view name);
  void End(std::string message);

  std::string where_;
  const ReadOptions& options_;
  JobTrace trace_;
  // Keys are hashes of the jobs' names, because ten million names would take too much memory.
  std::unordered_map<std::size_t, std::size_t> places_;
  base::Duration last_submit_{base::Duration::min()};
  std::optional<base::Error> error_;
};

// Reads Philly's cluster_job_log: a JSON array of jobs, or jobs one after the other.
Result<Unit> ReadPhilly(LineReader& lines, JobCollector& out);

}  // namespace carma::trace
