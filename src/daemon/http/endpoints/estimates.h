// Endpoints for what the server has learned about the memory of tasks.
#pragma once

#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

struct EstimateServices {
  Engine& engine;
  estimate::AppraisalRules rules;
};

// ?gpu_type=: the calibration for this type, by default for the most common type. ?signature=
// &kin=: the runs with these values.
Answer ShowKnowledge(const EstimateServices& services, const Call& call);
// Returns to the shipped calibration; for administrators.
Result<Unit> ForgetCalibration(const EstimateServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
