// Computes how much memory a server promises to a task, from the user's own figure, the configured
// estimator, and the results of finished tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/values/gpu.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "estimate/asking.h"
#include "estimate/estimator.h"
#include "estimate/history.h"
#include "estimate/measured_profiles.h"
#include "task/describe/spec.h"
#include "task/verdict/observation.h"

namespace carma::estimate {

// Server settings that every estimate uses.
struct AppraisalRules {
  std::string method = "auto";  // a name in Estimators()
  double coverage = 0.9;        // 0: the point estimate is promised
  bool prefer_given = true;
  std::string gpu_type;                              // the most common GPU type
  Paces paces;                                       // speeds of the server's GPU types
  std::int64_t gpu_mib = 0;                          // usable memory of the largest GPU
  std::shared_ptr<const History> history;            // null: nothing is learned
  std::shared_ptr<const MeasuredProfiles> measured;  // null: no profiles
};

// Fills in the fields that describe the server's GPUs: the largest GPU's memory, the most common
// type (the alphabetically first in a tie), and each type's speed.
void SuitGpus(AppraisalRules& rules, std::span<const core::GpuInfo> gpus);

struct Appraisal {
  std::optional<core::Estimate> estimate;  // empty: unknown
  core::KindId kind{};                     // derived from the signature
  core::Profile profile;  // from earlier runs of the same training job and from measurements
  std::string model;      // fingerprint; empty: no readable summary
  std::optional<task::FormulaSplit> formula;  // needed to learn from the finished task
  std::vector<std::string> remarks;           // one sentence each, for the user
};

// Computes estimates for tasks. Performs no I/O and has no state except the history. Thread-safe.
class Appraiser {
 public:
  explicit Appraiser(AppraisalRules rules);
  // earlier: a previous appraisal of the same description and summary, to reuse its results; may be
  // null.
  Appraisal Appraise(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                     const Appraisal* earlier = nullptr) const;
  const AppraisalRules& rules() const { return rules_; }

 private:
  Result<Answer> Ask(const Question& question) const;

  AppraisalRules rules_;
  std::unique_ptr<Estimator> given_, method_, structural_;
};

}  // namespace carma::estimate
