#include "daemon/gpus/gpu_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/json.h"
#include "base/try.h"
#include "store/history.h"

namespace carma::daemon {
namespace {

std::optional<double> Known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

void Raise(std::optional<double>& highest, const std::optional<double>& value) {
  if (value) highest = std::max(highest.value_or(*value), *value);
}

double Ms(base::Duration span) {
  return static_cast<double>(span.count());
}

}  // namespace

void GpuTimeline::Mean::Add(const std::optional<double>& value, double for_ms) {
  if (!value) return;
  sum += *value * for_ms;
  ms += for_ms;
}

std::optional<double> GpuTimeline::Mean::Value() const {
  return ms > 0 ? std::optional(sum / ms) : std::nullopt;
}

GpuTimeline::GpuTimeline(base::Time from, base::Time to, int points,
                         const std::vector<HistoryPoint>& readings, base::Duration longest)
    : from_(from), to_(to), readings_from_(readings.empty() ? to : readings.front().taken) {
  const base::Duration whole = to - from;
  width_ = std::max(base::Duration(1), (whole + base::Duration(points - 1)) / points);
  spans_.resize(static_cast<std::size_t>((whole + width_ - base::Duration(1)) / width_));
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const HistoryPoint& reading = readings[i];
    const auto used_mib = static_cast<double>(reading.used_mib);
    Add(Stretch{.from = std::max(readings[i - 1].taken, reading.taken - longest),
                .to = reading.taken,
                .used_mib = used_mib,
                .sm_active = reading.sm_active,
                .sm_peak = reading.sm_active,
                .dram_active = reading.dram_active,
                .used_peak_mib = used_mib,
                .power_w = reading.power_w,
                .tasks = reading.tasks});
  }
}

void GpuTimeline::Add(const store::GpuUsage& usage) {
  std::optional<double> power_w = Known(usage.energy_j);
  if (power_w == 0.0) power_w.reset();  // the GPU's energy is in another instance's rows
  if (usage.to > usage.from && power_w) *power_w /= Ms(usage.to - usage.from) / 1000;
  Add(Stretch{.from = usage.from,
              .to = std::min(usage.to, readings_from_),
              .used_mib = usage.used_mib,
              .sm_active = Known(usage.sm_active),
              .sm_peak = Known(usage.sm_peak),
              .dram_active = Known(usage.dram_active),
              .used_peak_mib = Known(usage.used_peak_mib),
              .power_w = power_w,
              .tasks = usage.tasks});
}

void GpuTimeline::Add(const Stretch& stretch) {
  const base::Time first = std::max(stretch.from, from_);
  const base::Time last = std::min(stretch.to, to_);
  for (base::Time at = first; at < last;) {
    const auto i = (at - from_) / width_;
    const base::Time next = std::min(last, from_ + (i + 1) * width_);
    Span& span = spans_[static_cast<std::size_t>(i)];
    const double for_ms = Ms(next - at);
    span.sm_active.Add(stretch.sm_active, for_ms);
    span.dram_active.Add(stretch.dram_active, for_ms);
    span.used_mib.Add(stretch.used_mib, for_ms);
    span.power_w.Add(stretch.power_w, for_ms);
    Raise(span.sm_peak, stretch.sm_peak);
    Raise(span.used_peak_mib, stretch.used_peak_mib);
    span.tasks = std::max(span.tasks, stretch.tasks);
    at = next;
  }
}

std::vector<api::GpuHistoryView::Point> GpuTimeline::Points() const {
  std::vector<api::GpuHistoryView::Point> points;
  base::Time at = from_;
  for (const Span& span : spans_) {
    const base::Time next = std::min(to_, at + width_);
    if (const std::optional<double> used_mib = span.used_mib.Value()) {
      points.push_back({.from_ms = base::ToMs(at),
                        .to_ms = base::ToMs(next),
                        .sm_active = span.sm_active.Value(),
                        .sm_peak = span.sm_peak,
                        .dram_active = span.dram_active.Value(),
                        .used_mib = *used_mib,
                        .used_peak_mib = span.used_peak_mib,
                        .power_w = span.power_w.Value(),
                        .tasks = span.tasks});
    }
    at = next;
  }
  return points;
}

api::GpuHistoryView GpuHistory(const GpuHistoryRequest& request,
                               const std::vector<store::GpuUsage>& rows) {
  GpuTimeline timeline(request.from, request.to, request.points, request.readings, request.longest);
  for (const store::GpuUsage& row : rows) {
    if (row.gpu_uuid == request.gpu.uuid) timeline.Add(row);
  }
  api::GpuHistoryView view = request.gpu;
  view.points = timeline.Points();
  return view;
}

Result<std::string> GpuHistoryText(const GpuHistoryRequest& request, const std::string& state_dir,
                                   const std::atomic<bool>& wanted) {
  const std::unique_ptr<store::History> books = CARMA_TRY(store::History::Open(state_dir));
  GpuTimeline timeline(request.from, request.to, request.points, request.readings, request.longest);
  // Rows are ordered by end time, and one GPU's rows do not overlap, so the search ends at the
  // first row that begins after the span.
  CARMA_TRY(books->Usage(request.from, base::Time::max(), [&](const store::GpuUsage& row) {
    if (row.gpu_uuid != request.gpu.uuid) return wanted.load();
    if (row.from >= request.to) return false;
    timeline.Add(row);
    return wanted.load();
  }));
  if (!wanted) return Unavailable("carmad is stopping");
  api::GpuHistoryView view = request.gpu;
  view.points = timeline.Points();
  return base::DumpJson(ToJson(view));
}

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// The points of a curve, with gaps where the values are unknown.
std::vector<report::GpuPoint> Curve(const std::vector<api::GpuHistoryView::Point>& points) {
  std::vector<report::GpuPoint> curve;
  std::optional<std::int64_t> until_ms;
  const auto hole = [&](std::int64_t at_ms) {
    curve.push_back({base::FromMs(at_ms), kNothing, kNothing, kNothing});
  };
  for (const api::GpuHistoryView::Point& point : points) {
    if (until_ms && *until_ms != point.from_ms) hole(*until_ms);
    curve.push_back({base::FromMs(point.from_ms), point.used_mib,
                     point.sm_active.value_or(kNothing), point.power_w.value_or(kNothing)});
    until_ms = point.to_ms;
  }
  if (until_ms) hole(*until_ms);
  return curve;
}

// Adds the memory promised to an attempt on each of its GPUs, clipped to the time span.
void AddPromise(const store::EndedAttempt& attempt, const GpuFiguresRequest& request,
                report::RunRecord& run) {
  report::Attempt promised{.started = std::max(attempt.taken.from, run.from),
                           .ended = std::min(attempt.taken.to, run.to)};
  if (attempt.promised_mib <= 0 || promised.started >= promised.ended) return;
  promised.promised_mib = static_cast<double>(attempt.promised_mib);
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    if (std::ranges::count(attempt.gpu_uuids, request.gpus[i].gpu.uuid) > 0)
      promised.gpus.push_back(static_cast<int>(i));
  }
  if (promised.gpus.empty()) return;
  run.tasks.push_back({.id = core::Number(attempt.task), .attempts = {std::move(promised)}});
}

}  // namespace

Result<std::string> GpuFigures(const GpuFiguresRequest& request, const std::string& state_dir,
                               const std::atomic<bool>& wanted) {
  const std::unique_ptr<store::History> books = CARMA_TRY(store::History::Open(state_dir));
  const GpuHistoryRequest& span = request.gpus.front();
  std::map<std::string, GpuTimeline> timelines;
  for (const GpuHistoryRequest& gpu : request.gpus)
    timelines.try_emplace(gpu.gpu.uuid, gpu.from, gpu.to, gpu.points, gpu.readings, gpu.longest);
  std::set<std::string> past;  // GPUs whose rows have reached the end of the span
  CARMA_TRY(books->Usage(span.from, base::Time::max(), [&](const store::GpuUsage& row) {
    if (row.from >= span.to) {
      past.insert(row.gpu_uuid);
    } else if (const auto found = timelines.find(row.gpu_uuid); found != timelines.end()) {
      found->second.Add(row);
    }
    return wanted.load() && past.size() < timelines.size();
  }));
  if (!wanted) return Unavailable("carmad is stopping");
  report::RunRecord run;
  run.from = span.from;
  run.to = span.to;
  run.label = fmt::format("from {} to {}", report::ClockText(span.from, request.clock),
                          report::ClockText(span.to, request.clock));
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    const api::GpuHistoryView& gpu = request.gpus[i].gpu;
    run.gpus.push_back({fmt::format("GPU {}", gpu.index), gpu.name, request.usable_mib[i],
                        Curve(timelines.at(gpu.uuid).Points())});
  }
  CARMA_TRY(books->Attempts(span.from, span.to, [&](const store::EndedAttempt& attempt) {
    AddPromise(attempt, request, run);
    return wanted.load();
  }));
  for (const store::EndedAttempt& attempt : request.running) AddPromise(attempt, request, run);
  return report::GpusHtml(run, "GPUs", request.clock);
}

}  // namespace carma::daemon
