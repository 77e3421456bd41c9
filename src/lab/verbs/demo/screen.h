// Draws the `carma demo` screen while two simulated servers run the same tasks, and its final
// charts. Performs no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "api/overview.h"
#include "cli/terminal.h"
#include "cli/top/frame.h"
#include "report/metrics.h"

namespace carma::cli {

// The state of one of the two servers.
struct DemoSide {
  std::string title;
  api::OverviewView server;
  std::int64_t began_ms = 0;  // on the server's clock
};

struct DemoData {
  std::vector<DemoSide> sides;   // the first runs one task per GPU, the second runs CARMA
  std::int64_t tasks = 0;        // number of tasks in the trace
  double speed = 1;              // simulated seconds per second
  std::deque<std::string> news;  // events on CARMA's server, newest last
};

// Returns how many of the server's tasks have succeeded.
std::int64_t DemoDone(const api::OverviewView& server);

// Draws exactly size.rows lines, each at most size.columns characters long.
std::vector<TopLine> DrawDemo(const DemoData& data, const TopSize& size);
// The state in one line, for output that is not a terminal.
std::string DemoLine(const DemoData& data);

// Finds the events on a server between two snapshots of its state.
class DemoNews {
 public:
  // Returns sentences about tasks that, since the last call, have run out of GPU memory, been
  // retried, or ended after a retry.
  std::vector<std::string> Look(const api::OverviewView& server, std::int64_t began_ms);

 private:
  struct Seen {
    int ooms = 0;
    int attempt = 0;
    bool ended = false;
  };
  std::map<std::uint64_t, Seen> seen_;
};

// A bar chart of both runs: time for all tasks, mean completion and waiting time of a task, GPU
// activity.
std::string DemoChart(const report::Metrics& exclusive, const report::Metrics& carma,
                      const Screen& screen);

}  // namespace carma::cli
