// Predicts the peak GPU memory of a task that has not run yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/task.h"
#include "task/spec.h"

namespace carma::estimate {

class Estimator {
 public:
  virtual ~Estimator() = default;
  virtual std::string name() const = 0;
  // Peak per GPU in MiB, CUDA context included, the same for each of the task's GPUs.
  // Errors: kNotFound: this method says nothing about such a task; kUnavailable: a helper did not
  // answer. May block; worker only.
  virtual base::Result<core::Estimate> Peak(const task::TaskSpec& spec) = 0;
};

// What the user or the task file states, as it is.
std::unique_ptr<Estimator> MakeGiven();

// Asks the estimators in order; the first that says something wins. kNotFound if none does.
std::unique_ptr<Estimator> MakeFirstOf(std::vector<std::unique_ptr<Estimator>> estimators);

}  // namespace carma::estimate
