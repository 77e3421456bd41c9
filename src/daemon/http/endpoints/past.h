// What happened: events, and reports of the tasks of a span of time.
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
  std::string state_dir;  // of that store, for a reader of its own
  bool simulated = false;
  std::function<std::string()> provenance;  // of a report: whose, under which rules
  std::function<void()> close_usage;        // as EngineServices::close_usage
  AnswerLater answer_later;
  // What holds GPUs by now, as attempts that end now.
  std::function<std::vector<store::EndedAttempt>()> running_attempts;
};

// ?task= &after= &limit=; the newest hundred by default.
Answer ListEvents(const PastServices& services, const Call& call);
// The run as the books tell it: tasks submitted in the span, their events, and the use of the GPUs
// meanwhile. ?after_ms= &until_ms= &last=; &run=1: with every task and the GPUs over time. Made on
// a worker: the books of a year take seconds to read.
base::Result<base::Unit> MakeReport(const PastServices& services, const Call& call,
                                    const api::Responder& reply);
// The same with every task and the GPUs over time, as a page to look at: what `carma report --html`
// makes of it.
base::Result<base::Unit> DrawReport(const PastServices& services, const Call& call,
                                    const api::Responder& reply);
// Who had what: ?by=user,account,qos,month|day (user) &after_ms= &until_ms=. Made on a worker.
base::Result<base::Unit> TellUsage(const PastServices& services, const Call& call,
                                   const api::Responder& reply);

}  // namespace carma::daemon
