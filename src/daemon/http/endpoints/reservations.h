// Endpoints that list, make and remove reservations of GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

struct ReservationServices {
  Engine& engine;
  base::Clock& clock;
  std::vector<std::string> makers;  // users who, like administrators, may reserve GPUs
};

Answer ListReservations(const ReservationServices& services, const Call& call);
// Body: core::Reservation. For administrators and reserve.makers. Answers 201 with the reservation
// once it is durable.
Result<Unit> MakeReservation(const ReservationServices& services, const Call& call,
                             const api::Responder& reply);
// {id}: users may remove their own reservations, administrators any. Answers {} once the removal is
// durable.
Result<Unit> RemoveReservation(const ReservationServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
