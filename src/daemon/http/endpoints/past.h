// Endpoints for events and for reports on the tasks of a given period.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ?task= &after= &limit=: by default the newest hundred events.
Answer ListEvents(const SharedServices& services, const Call& call);
// A report on the tasks submitted in the period, their events, and GPU use. ?after_ms= &until_ms=
// &last=: the period; &run=1: adds every task and GPU use over time. Built on a worker, because
// reading a year of data takes seconds.
Result<Unit> MakeReport(const SharedServices& services, const Call& call,
                        const api::Responder& reply);
// The report of MakeReport with &run=1 as an HTML page, as written by `carma report --html`.
Result<Unit> DrawReport(const SharedServices& services, const Call& call,
                        const api::Responder& reply);
// ?by=: any of user, account, qos and month or day (default: user); &after_ms= &until_ms=. Built on
// a worker.
Result<Unit> TellUsage(const SharedServices& services, const Call& call,
                       const api::Responder& reply);

}  // namespace carma::daemon
