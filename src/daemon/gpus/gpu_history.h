// Shows a GPU's usage over time. Resamples stored roll-ups and single readings to equal time spans
// for the API.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/gpu_view.h"
#include "base/result.h"
#include "base/time.h"
#include "daemon/gpus/monitor.h"
#include "report/html.h"
#include "store/store.h"

namespace carma::daemon {

inline constexpr int kMostHistoryPoints = 2'000;

// Computes the time-weighted mean and the maximum of the known values in each span. Pure.
class GpuTimeline {
 public:
  // Divides [from, to) into at most `points` equal spans; `from` must be before `to`. readings: the
  // GPU's readings, oldest first. Each covers the time since the previous one, but at most
  // `longest`, so that times without a response from the driver are gaps.
  GpuTimeline(base::Time from, base::Time to, int points, const std::vector<HistoryPoint>& readings,
              base::Duration longest);

  // Adds a roll-up of the same GPU. Readings take precedence for the time that they cover. A peak
  // may have occurred at any time during the roll-up, so it applies to every span that the roll-up
  // overlaps.
  void Add(const store::GpuUsage& usage);

  // The points of the curve. Spans without data have no point.
  std::vector<api::GpuHistoryView::Point> Points() const;

 private:
  struct Mean {
    double sum = 0;
    double ms = 0;
    void Add(const std::optional<double>& value, double for_ms);
    std::optional<double> Value() const;
  };
  struct Span {
    Mean sm_active, dram_active, used_mib, power_w;
    std::optional<double> sm_peak, used_peak_mib;
    int tasks = 0;
  };
  // A period during which all values are constant.
  struct Stretch {
    base::Time from, to;
    double used_mib = 0;
    std::optional<double> sm_active, sm_peak, dram_active, used_peak_mib, power_w;
    int tasks = 0;
  };
  void Add(const Stretch& stretch);

  base::Time from_, to_;
  base::Duration width_;
  base::Time readings_from_;  // roll-ups are used only before this
  std::vector<Span> spans_;
};

struct GpuHistoryRequest {
  base::Time from{}, to{};
  int points = 60;
  api::GpuHistoryView gpu;             // everything except the points
  std::vector<HistoryPoint> readings;  // taken in [from, to)
  base::Duration longest{};            // as in GpuTimeline
};

// Builds the view from the request and the rows, which may include roll-ups of other GPUs.
api::GpuHistoryView GpuHistory(const GpuHistoryRequest& request,
                               const std::vector<store::GpuUsage>& rows);
// Like GpuHistory(), but reads the roll-ups from the store in `state_dir` and returns JSON. Must be
// called on a worker, because reading may take seconds. Returns the errors of store::History, and
// kUnavailable soon after `wanted` becomes false.
Result<std::string> GpuHistoryText(const GpuHistoryRequest& request, const std::string& state_dir,
                                   const std::atomic<bool>& wanted);

// Request for a page of figures (report/html.h) that shows all GPUs over the same time span.
struct GpuFiguresRequest {
  std::vector<GpuHistoryRequest> gpus;  // at least one, all with the same span and points
  std::vector<std::int64_t> usable_mib;
  report::Clock clock;                       // the reader's time zone
  std::vector<store::EndedAttempt> running;  // running attempts, as of now
};
// Like GpuHistoryText(), but returns the page of figures.
Result<std::string> GpuFigures(const GpuFiguresRequest& request, const std::string& state_dir,
                               const std::atomic<bool>& wanted);

}  // namespace carma::daemon
