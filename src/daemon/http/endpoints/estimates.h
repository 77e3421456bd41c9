// What the server has learned about the memory of tasks.
#pragma once

#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

struct EstimateServices {
  Engine& engine;
  estimate::AppraisalRules rules;
};

// ?gpu_type=: calibration of this type, by default of the most common one; ?signature= &kin=: runs
// with these.
Answer ShowKnowledge(const EstimateServices& services, const Call& call);
// Returns to the shipped calibration; for administrators.
Result<Unit> ForgetCalibration(const EstimateServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
