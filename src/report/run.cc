#include "report/run.h"

#include <algorithm>
#include <cmath>

namespace carma::report {

using base::Duration;
using base::Seconds;

namespace {

// A time-weighted mean over the spans with a known value.
class Mean {
 public:
  void Add(double value, double length_s) {
    if (std::isnan(value)) return;
    sum_ += value * length_s;
    known_s_ += length_s;
  }
  double Value() const {
    return known_s_ > 0 ? sum_ / known_s_ : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double sum_ = 0;
  double known_s_ = 0;
};

std::vector<GpuPoint> Condensed(const std::vector<GpuPoint>& points, core::Time end,
                                std::size_t most) {
  const core::Time begin = points.front().at;
  const auto count = static_cast<std::int64_t>(most);
  const Duration span((std::max(end, begin) - begin).count() / count + 1);
  std::vector<GpuPoint> condensed;
  std::size_t i = 0;
  for (core::Time from = begin; from < end; from += span) {
    const core::Time to = std::min(from + span, end);
    Mean used_mib, sm_active, power_w;
    while (i < points.size()) {
      const core::Time next = i + 1 < points.size() ? points[i + 1].at : end;
      const double length_s = Seconds(std::min(next, to) - std::max(points[i].at, from));
      if (length_s > 0) {
        used_mib.Add(points[i].used_mib, length_s);
        sm_active.Add(points[i].sm_active, length_s);
        power_w.Add(points[i].power_w, length_s);
      }
      if (next > to) break;
      ++i;
    }
    condensed.push_back({from, used_mib.Value(), sm_active.Value(), power_w.Value()});
  }
  return condensed;
}

}  // namespace

void Condense(RunRecord& run, std::size_t most) {
  for (RunGpu& gpu : run.gpus) {
    if (gpu.points.size() <= most) continue;
    gpu.points = Condensed(gpu.points, run.to, std::max<std::size_t>(1, most));
  }
}

}  // namespace carma::report
