// Reads the claims of Slurm jobs with squeue. Requests that arrive while squeue is running share
// the next run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "daemon/loop/background_worker.h"
#include "daemon/slurm/slurm_programs.h"

namespace carma::daemon {

class ClaimQuestions {
 public:
  ClaimQuestions(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs);

  // Called on the loop with the job's claim in GiB on each node; the value is empty if the job has
  // no claim. The error is kUnavailable if Slurm does not respond in time or its response cannot be
  // parsed.
  using Take = std::function<void(const Result<std::optional<std::int64_t>>&)>;
  void Ask(std::uint64_t job, Take call);

 private:
  void AskNext();

  SlurmPrograms programs_;
  std::vector<std::pair<std::uint64_t, Take>> asked_;  // for the next invocation of squeue
  bool asking_ = false;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
