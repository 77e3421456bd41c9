// Deletes old rows from the store: finished tasks after a configured time, request names after a
// day.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "base/clock.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/loop_meter.h"
#include "store/store.h"

namespace carma::daemon {

// Runs once an hour. The first run is an hour after startup, so that a time service can set the
// clock first; with a wrong clock, the whole history might be deleted. A backlog is deleted in
// small batches, with calls served in between.
class Housekeeping {
 public:
  // All arguments must outlive this object. keep_days: returns the current
  // daemon.keep_finished_days.
  Housekeeping(boost::asio::io_context& loop, LoopMeter& meter, store::Store& store,
               base::Clock& clock, std::function<int()> keep_days);
  void Start();
  // Deletes old rows. Their age is taken from carmad's clock or the system's clock, whichever is
  // earlier. If the system's clock is set, the two clocks differ until carmad is restarted.
  void Run();

 private:
  // Returns the number of deleted tasks.
  Result<std::int64_t> Prune();

  LoopMeter& meter_;
  store::Store& store_;
  base::Clock& clock_;
  std::function<int()> keep_days_;
  Alarm again_;
};

}  // namespace carma::daemon
