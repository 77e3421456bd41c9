// Endpoints that show what the server has learned about tasks' memory.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ?gpu_type=: shows the calibration for this GPU type (default: the most common type). ?signature=
// &kin=: shows the runs with these values.
Answer ShowKnowledge(const SharedServices& services, const Call& call);
// Resets the calibration to the shipped one. For administrators only.
Result<Unit> ForgetCalibration(const SharedServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
