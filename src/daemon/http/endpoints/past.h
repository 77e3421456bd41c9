// Endpoints for the past: events, and reports on the tasks of a period.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"
#include "store/store.h"

namespace carma::daemon {

struct PastServices {
  store::Store& store;
  const Monitor& monitor;
  base::Clock& clock;
  std::string state_dir;  // folder of that store, for readers on other threads
  bool simulated = false;
  std::function<std::string()> provenance;  // for a report: host and rules
  std::function<void()> close_usage;        // as EngineServices::close_usage
  AnswerLater answer_later;
  // Attempts that hold GPUs, as if they ended now.
  std::function<std::vector<store::EndedAttempt>()> running_attempts;
};

// ?task= &after= &limit=; by default the newest hundred events.
Answer ListEvents(const PastServices& services, const Call& call);
// A report on the tasks submitted in the period, their events, and the use of the GPUs. ?after_ms=
// &until_ms= &last=; &run=1 adds every task and the GPUs over time. Made on a worker, because the
// data of a year takes seconds to read.
Result<Unit> MakeReport(const PastServices& services, const Call& call,
                        const api::Responder& reply);
// The report of MakeReport with &run=1 as an HTML page, like `carma report --html`.
Result<Unit> DrawReport(const PastServices& services, const Call& call,
                        const api::Responder& reply);
// ?by= any of user, account, qos and month or day (default: user), &after_ms= &until_ms=. Made on a
// worker.
Result<Unit> TellUsage(const PastServices& services, const Call& call, const api::Responder& reply);

}  // namespace carma::daemon
