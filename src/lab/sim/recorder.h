// Records a run for reports: every task, and every GPU's time series in bounded memory.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "lab/sim/simulate.h"
#include "report/run.h"

namespace carma::sim {

// A step function of time. If it has more than `limit` points, neighbouring points are merged into
// their time-weighted mean, so the overall mean stays exact. limit: at least 2.
class Series {
 public:
  Series(std::size_t limit, base::Time from) : limit_(limit), open_{.at = from}, since_(from) {}

  void Set(base::Time now, double used_mib, double sm_active, double power_w);
  // Ends the series.
  std::vector<report::GpuPoint> Finish(base::Time to);

 private:
  struct Piece {  // integrals over its length
    base::Time at{};
    base::Duration length{};
    double mib_ms = 0;
    double sm_ms = 0;
    double power_ms = 0;
  };
  void Pass(base::Time now);
  void Close();

  std::size_t limit_ = 0;
  base::Duration grain_{0};  // shorter pieces are merged
  std::vector<Piece> pieces_;
  Piece open_;
  base::Time since_{};
  double used_mib_ = 0;
  double sm_active_ = 0;
  double power_w_ = 0;
};

class Recorder {
 public:
  // `from` is the time of the first submission.
  Recorder(const Cluster& cluster, std::size_t points_per_gpu, base::Time from);
  void Add(report::RunTask task) { record_.tasks.push_back(std::move(task)); }
  Series& OfDevice(std::size_t device) { return series_[device]; }
  report::RunRecord Finish(base::Time to);

 private:
  report::RunRecord record_;
  std::vector<Series> series_;
};

}  // namespace carma::sim
