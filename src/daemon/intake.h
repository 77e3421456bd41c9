// What comes in: submissions are checked, numbered and kept before the core hears of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/scheduler.h"
#include "daemon/engine_options.h"
#include "daemon/estimates.h"
#include "store/store.h"
#include "task/describe/spec.h"

namespace carma::daemon {

// Who submits, as the kernel tells.
struct Submitter {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string remark = {};  // what else the history says of it, one line; may be empty
  // Names the submission: once accepted, the same again is answered with its tasks. Empty:
  // nameless.
  std::string request = {};
};

struct Submitted {
  core::TaskId first{};
  std::size_t count = 0;
  bool repeated = false;  // accepted before, by its name
};

class Intake {
 public:
  using Answer = std::function<void(base::Result<Submitted>)>;

  // All outlive it. The core is only asked.
  Intake(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
         base::Clock& clock)
      : options_(options), store_(store), core_(core), clock_(clock) {}

  // Once, first. Errors: those of the store.
  base::Result<base::Unit> Open();

  // Waits for AcceptAll() or RefuseAll().
  void Submit(std::vector<task::TaskSpec> specs, const Submitter& submitter, Answer answer);
  // Makes what waits durable with one commit, answers everybody, and returns TaskSubmitted of what
  // was accepted. Each submission stands alone (kInvalid: no task; kConflict: can never fit, queue
  // full, another submission had its name; kNotFound: depends on an unknown task). Errors: kIo of
  // the store; then nothing was accepted, and everybody has been told.
  base::Result<std::vector<core::Event>> AcceptAll();
  void RefuseAll(const base::Error& why);

  // How tasks ended that the core has forgotten and this one depends on.
  base::Result<base::Unit> FillDependencies(core::TaskRequest& request);

  // What an estimate is asked with: of a task that was just accepted from memory, else from the
  // store.
  base::Result<EstimateJob> JobForEstimate(core::TaskId id);
  // The estimates of all that was accepted have been asked for.
  void ForgetJobs() { new_jobs_.clear(); }

 private:
  struct Submission {
    std::vector<task::TaskSpec> specs;
    Submitter submitter;
    Answer answer;
  };

  static void Refuse(Submission& submission, const base::Error& why);
  base::Result<Submitted> Accept(Submission& submission, std::vector<core::Event>& events);
  // Empty: it is new.
  base::Result<std::optional<Submitted>> Repeated(const Submission& submission);
  base::Result<base::Unit> CheckRoom(const Submission& submission, std::size_t accepted) const;
  base::Result<base::Unit> Check(const Submission& submission, std::size_t accepted);
  base::Result<base::Unit> RefuseWhatNeverFits(const Submission& submission) const;
  base::Result<base::Unit> CheckDependencies(const std::vector<task::TaskSpec>& specs);
  store::StoredTask NewTask(const task::TaskSpec& spec, std::string spec_json, core::TaskId id,
                            const Submitter& submitter, std::optional<core::TaskId> array) const;
  void KeepForEstimates(core::TaskId first, Submission submission);

  const EngineOptions& options_;
  store::Store& store_;
  const core::Scheduler& core_;
  base::Clock& clock_;
  std::optional<core::TaskId> next_id_;
  std::vector<Submission> waiting_;
  // Of tasks accepted in this turn, without their environments, until their estimates are asked.
  std::unordered_map<std::uint64_t, EstimateJob> new_jobs_;
};

}  // namespace carma::daemon
