// Runs Slurm's own programs. All calls block, so they must run on a worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "slurm/elsewhere.h"
#include "slurm/job.h"

namespace carma::daemon {

// Runs one of Slurm's programs and returns its output. Returns kUnavailable if the program could
// not be run, was killed after `limit`, or failed (with the end of its output).
Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                               std::chrono::milliseconds limit);

// All calls return the errors of RunOfSlurm(), and kInvalid for lines that do not describe jobs
// (slurm/job.h).
struct SlurmPrograms {
  std::string scontrol = "/usr/bin/scontrol";
  std::string squeue = "/usr/bin/squeue";
  std::chrono::milliseconds limit{30'000};  // for running one program

  // words: the arguments for scontrol.
  Result<std::string> Control(const std::vector<std::string>& words) const;
  // The lines that squeue prints for the given jobs, excluding jobs that no longer exist.
  Result<std::string> LinesOf(const std::vector<std::uint64_t>& jobs) const;
  // The job as squeue shows it; empty if Slurm does not list it.
  Result<std::optional<slurm::Job>> Find(std::uint64_t job) const;
  // Like Find(), but also fills in Job::excluded.
  Result<std::optional<slurm::Job>> FindWithExcluded(std::uint64_t job) const;
  Result<std::vector<slurm::Node>> Nodes() const;
};

}  // namespace carma::daemon
