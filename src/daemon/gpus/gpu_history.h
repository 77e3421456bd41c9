// A GPU over time as the API shows it: stored roll-ups and single readings, resampled to equal
// spans.
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

// Resamples means over time and maxima of the known values. Pure.
class GpuTimeline {
 public:
  // [from, to), from < to, in at most `points` equal spans. readings: those of that GPU, oldest
  // first; each covers the time since the one before, but at most `longest`, so that a silent
  // driver leaves a gap.
  GpuTimeline(base::Time from, base::Time to, int points, const std::vector<HistoryPoint>& readings,
              base::Duration longest);

  // Adds a roll-up of that GPU. Where readings exist they are used instead. Its peaks may lie
  // anywhere in it, so they count for every span that it touches.
  void Add(const store::GpuUsage& usage);

  // Spans without data are left out.
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
  // Values between two moments.
  struct Stretch {
    base::Time from, to;
    double used_mib = 0;
    std::optional<double> sm_active, sm_peak, dram_active, used_peak_mib, power_w;
    int tasks = 0;
  };
  void Add(const Stretch& stretch);

  base::Time from_, to_;
  base::Duration width_;
  base::Time readings_from_;  // roll-ups are used before then
  std::vector<Span> spans_;
};

struct GpuHistoryRequest {
  base::Time from{}, to{};
  int points = 60;
  api::GpuHistoryView gpu;             // without its points
  std::vector<HistoryPoint> readings;  // in [from, to)
  base::Duration longest{};            // as in GpuTimeline
};

// Makes the view at once, from roll-ups of any GPUs.
api::GpuHistoryView GpuHistory(const GpuHistoryRequest& request,
                               const std::vector<store::GpuUsage>& rows);
// The same from the store in this folder, as JSON text. May read for seconds, so call it only on a
// worker; stops with kUnavailable soon after `wanted` has become false. Errors: those of
// store::History.
Result<std::string> GpuHistoryText(const GpuHistoryRequest& request, const std::string& state_dir,
                                   const std::atomic<bool>& wanted);

// All GPUs over one span as a page of figures (report/html.h), which also needs each GPU's usable
// memory. Otherwise like GpuHistoryText.
struct GpuFiguresRequest {
  std::vector<GpuHistoryRequest> gpus;  // of the same span and number of points; at least one
  std::vector<std::int64_t> usable_mib;
  report::Clock clock;                       // of the reader
  std::vector<store::EndedAttempt> running;  // by now
};
Result<std::string> GpuFigures(const GpuFiguresRequest& request, const std::string& state_dir,
                               const std::atomic<bool>& wanted);

}  // namespace carma::daemon
