// Endpoints for the server's knowledge about the memory of tasks.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ?gpu_type=: the calibration for this type, by default for the most common type. ?signature=
// &kin=: the runs with these values.
Answer ShowKnowledge(const SharedServices& services, const Call& call);
// Returns to the shipped calibration; for administrators.
Result<Unit> ForgetCalibration(const SharedServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
