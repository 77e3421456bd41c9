// Slurm's own programs, asked by the server. Every call waits: on a worker's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "slurm/job.h"

namespace carma::daemon {

// What a program said; errors: kUnavailable: it could not be run, took longer than `limit` and was
// killed, or failed, with its last words.
base::Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                                     std::chrono::milliseconds limit);

// Errors: as RunOfSlurm(); kInvalid: lines that are no jobs (slurm/job.h).
struct SlurmPrograms {
  std::string scontrol = "/usr/bin/scontrol";
  std::string squeue = "/usr/bin/squeue";
  std::chrono::milliseconds limit{30'000};  // of a program's run

  // words: after scontrol's own path.
  base::Result<std::string> Control(const std::vector<std::string>& words) const;
  // squeue's lines of those that Slurm knows.
  base::Result<std::string> LinesOf(const std::vector<std::uint64_t>& jobs) const;
  // The job as squeue shows it; empty: Slurm does not know it.
  base::Result<std::optional<slurm::Job>> Find(std::uint64_t job) const;
};

}  // namespace carma::daemon
