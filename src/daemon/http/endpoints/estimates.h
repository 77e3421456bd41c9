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

// ?gpu_type=: whose calibration, by default that of most GPUs; ?signature= &kin=: whose runs.
Answer ShowKnowledge(const EstimateServices& services, const Call& call);
// Predictions are as shipped again; for administrators.
base::Result<base::Unit> ForgetCalibration(const EstimateServices& services, const Call& call,
                                           const api::Responder& reply);

}  // namespace carma::daemon
