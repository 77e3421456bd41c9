// Computes the memory that a server promises to a task from the user's figure, the configured
// method and the results of finished tasks. Used by the daemon, the simulator and `carma estimate`.
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

// The rules for appraisals. At any moment they are the same for all tasks.
struct AppraisalRules {
  std::string method = "auto";  // a name in Estimators()
  double coverage = 0.9;        // 0: the point is promised
  bool prefer_given = true;
  std::string gpu_type;                              // the most common type
  Paces paces;                                       // of the server's GPU types
  std::int64_t gpu_mib = 0;                          // usable memory of the largest GPU
  std::shared_ptr<const History> history;            // null: nothing is learned
  std::shared_ptr<const MeasuredProfiles> measured;  // null: none
};

// Fills in the server's GPUs: their largest memory, the most common type (the first by name if
// several are equally common), and how fast each type is.
void SuitGpus(AppraisalRules& rules, std::span<const core::GpuInfo> gpus);

struct Appraisal {
  std::optional<core::Estimate> estimate;  // empty: unknown
  core::KindId kind{};                     // derived from the signature
  core::Profile profile;  // from earlier runs of the training and from measurements
  std::string model;      // fingerprint; empty: no readable summary
  std::optional<task::FormulaSplit> formula;  // needed to learn from the task's end
  std::vector<std::string> remarks;           // one sentence each, for the user
};

// Appraises tasks. Pure except for the history; no I/O. Safe to use from several threads.
class Appraiser {
 public:
  explicit Appraiser(AppraisalRules rules);
  // earlier: an appraisal of the same description and summary, or null; its results are reused.
  Appraisal Appraise(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                     const Appraisal* earlier = nullptr) const;
  const AppraisalRules& rules() const { return rules_; }

 private:
  Result<Answer> Ask(const Question& question) const;

  AppraisalRules rules_;
  std::unique_ptr<Estimator> given_, method_, structural_;
};

}  // namespace carma::estimate
