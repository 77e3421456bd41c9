// Forgets what the books are to forget: finished tasks by age, requests after a day.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "base/clock.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/loop_meter.h"
#include "store/store.h"

namespace carma::daemon {

// Once an hour; a backlog piece by piece, so that others are served in between.
class Housekeeping {
 public:
  // All outlive it. `keep_days`: task.keep_finished_days as it is then.
  Housekeeping(boost::asio::io_context& loop, LoopMeter& meter, store::Store& store,
               base::Clock& clock, std::function<int()> keep_days);
  void Run();

 private:
  // How many tasks were forgotten.
  base::Result<std::int64_t> Prune();

  LoopMeter& meter_;
  store::Store& store_;
  base::Clock& clock_;
  std::function<int()> keep_days_;
  Alarm again_;
};

}  // namespace carma::daemon
