// Endpoints that list, make and remove GPU reservations.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

Answer ListReservations(const SharedServices& services, const Call& call);
// Takes a core::Reservation. For administrators and the users in reserve.makers. Responds with 201
// and the reservation once it is durable.
Result<Unit> MakeReservation(const SharedServices& services, const Call& call,
                             const api::Responder& reply);
// {id}: users may remove only their own reservations, administrators any. Returns {} once the
// removal is durable.
Result<Unit> RemoveReservation(const SharedServices& services, const Call& call,
                               const api::Responder& reply);

}  // namespace carma::daemon
