#include "estimate/estimator.h"

#include <utility>

namespace carma::estimate {
namespace {

using base::ErrorCode;

class Given : public Estimator {
 public:
  std::string name() const override { return "given"; }
  base::Result<core::Estimate> Peak(const task::TaskSpec& spec) override {
    if (!spec.memory_mib) return base::Fail(ErrorCode::kNotFound, "no memory was given");
    return core::Estimate{*spec.memory_mib, spec.memory_source};
  }
};

class FirstOf : public Estimator {
 public:
  explicit FirstOf(std::vector<std::unique_ptr<Estimator>> estimators)
      : estimators_(std::move(estimators)) {}
  std::string name() const override { return "auto"; }
  base::Result<core::Estimate> Peak(const task::TaskSpec& spec) override {
    for (const std::unique_ptr<Estimator>& each : estimators_) {
      base::Result<core::Estimate> estimate = each->Peak(spec);
      if (estimate || estimate.error().code != ErrorCode::kNotFound) return estimate;
    }
    return base::Fail(ErrorCode::kNotFound, "no estimator says anything about this task");
  }

 private:
  std::vector<std::unique_ptr<Estimator>> estimators_;
};

}  // namespace

std::unique_ptr<Estimator> MakeGiven() {
  return std::make_unique<Given>();
}

std::unique_ptr<Estimator> MakeFirstOf(std::vector<std::unique_ptr<Estimator>> estimators) {
  return std::make_unique<FirstOf>(std::move(estimators));
}

}  // namespace carma::estimate
