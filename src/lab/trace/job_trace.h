// Traces of whole clusters in a common form: each job's user, submission time, GPU count and
// duration. The jobs' programs are unknown. job_mapping.h turns these traces into task traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace carma::trace {

inline constexpr std::size_t kMaxJobs = 10'000'000;  // per trace; each job takes 56 bytes
inline constexpr int kMaxJobGpus = 4096;
inline constexpr std::size_t kMaxNames = 1'000'000;  // different users, clusters or workloads
inline constexpr std::size_t kMaxNameBytes = 256;
// Later submission times are rejected. In a trace with dates, time counts from 1970, so this limit
// is in the year 2101.
inline constexpr base::Duration kMaxJobSubmit = std::chrono::hours(131 * 366 * 24);
inline constexpr base::Duration kMaxJobDuration = std::chrono::hours(10 * 366 * 24);

enum class JobStatus : std::uint8_t { kUnknown, kPassed, kFailed, kKilled, kRunning, kPending };
std::string_view JobStatusName(JobStatus status);  // "passed" …, "" for kUnknown
// Parses the status words of all formats, ignoring case: "Pass", "COMPLETED", "Terminated",
// "TIMEOUT" … Returns kUnknown for "", and an empty optional for an unknown word.
std::optional<JobStatus> ParseJobStatus(std::string_view word);

// Assigns numbers to strings that many jobs share. The empty string is number 0.
class Names {
 public:
  Names() { Number({}); }
  // Returns the string's number; a new string gets the next number. Empty if kMaxNames numbers are
  // in use.
  std::optional<std::uint32_t> Number(std::string_view name);
  const std::string& Text(std::uint32_t number) const { return *texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> texts_;  // the map's keys, which never move
};

struct Job {
  base::Duration submit{};                 // since the trace's start
  std::optional<base::Duration> duration;  // time on the GPUs; empty: unknown
  std::int32_t gpu_milli = 0;  // GPUs in thousandths: 8000 is eight GPUs, 500 is half of one
  std::uint32_t user = 0;      // number in JobTrace::users
  std::uint32_t vc = 0;        // virtual cluster, number in JobTrace::vcs
  std::uint32_t workload = 0;  // number in JobTrace::workloads; 0: unknown
  std::uint32_t wishes = 0;    // number in JobTrace::wishes
  std::int32_t line = 0;       // line in the file
  JobStatus status = JobStatus::kUnknown;
};
// Number of GPUs that the job needs if it does not share them with other jobs.
inline int WholeGpus(const Job& job) {
  return (job.gpu_milli + 999) / 1000;
}
// True if the job was never started and therefore put no load on the cluster.
inline bool NeverRan(const Job& job) {
  return job.status == JobStatus::kPending && !job.duration;
}
// GPU seconds; 0 if the duration is unknown.
inline double GpuSeconds(const Job& job) {
  return job.duration ? base::Seconds(*job.duration) * job.gpu_milli / 1000 : 0;
}

// Kinds of problems in a line of a trace.
enum class Complaint {
  kTorn,
  kTooMany,
  kTooLong,
  kSubmit,
  kGpusMissing,
  kGpus,
  kDurationMissing,
  kDuration,
  kOrder,
  kStatus,
  kWorkload,
  kWishes,
  kStart
};
// A key for JSON ("torn"), the problem ("truncated line"), and the remedy ("skipped").
struct ComplaintText {
  std::string_view key;
  std::string_view what;
  std::string_view remedy;
};
const ComplaintText& Describe(Complaint complaint);

// The problems found in a trace. All are counted, and the first few of each kind are stored as
// text.
class Complaints {
 public:
  static constexpr std::size_t kToldOfEach = 5;

  // where: the path, for messages; value: the invalid text.
  void Add(Complaint complaint, std::string_view where, std::int64_t line, std::string_view value);
  std::size_t total() const { return total_; }
  const std::map<Complaint, std::size_t>& counts() const { return counts_; }
  // Messages in order of appearance: "philly.csv:17: invalid duration: '-3'; job kept without a
  // duration".
  const std::vector<std::string>& told() const { return told_; }

 private:
  std::map<Complaint, std::size_t> counts_;
  std::size_t total_ = 0;
  std::vector<std::string> told_;
};

struct JobTrace {
  std::vector<Job> jobs;  // by submission, then line
  Names users;
  Names vcs;
  Names workloads;
  Names wishes;              // rows of kWishColumns: what tasks request in addition to a workload
  std::size_t cpu_jobs = 0;  // jobs without GPUs, which are not in `jobs`
  // The cluster's local time at the trace's start, as milliseconds since 1970 without a time zone;
  // empty if unknown. Used for the time of day.
  std::optional<std::int64_t> start_ms;
  std::string format;                   // one of TraceFormats(), or the tool that made it
  std::vector<std::string> provenance;  // comment lines at the head, without "# "
  std::string sha256;                   // of the source; empty for a trace that was computed
  Complaints complaints;
};

// Parses "2017-10-07 01:12:09", optionally with a T, a fraction or a Z, to milliseconds since 1970.
// No time zone is applied. Empty for any other text.
std::optional<std::int64_t> ParseLocalTime(std::string_view text);
std::string FormatLocalTime(std::int64_t ms);  // "2017-10-07T01:12:09"

// Shifts all times so that the first job is at 0, and adjusts start_ms.
void StartAtFirstJob(JobTrace& trace);

}  // namespace carma::trace
