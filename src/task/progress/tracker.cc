#include "task/progress/tracker.h"

#include <algorithm>
#include <cmath>

namespace carma::task {
namespace {

constexpr std::int64_t kFirstGapMs = 200;
// The time to the next check is the run's age divided by this number.
constexpr std::int64_t kGapShare = 20;
// Beyond this fraction of the run, its average speed is more reliable than the printed rate, which
// excludes evaluations and checkpoints.
constexpr double kLeastFraction = 0.01;
constexpr std::int64_t kLeastSpanMs = 60'000;
constexpr double kMostLeftMs = 1e12;

// A progress bar overwrites its line with carriage returns. Keeps only the last two versions of
// each line.
std::string LastOnEachLine(std::string_view data) {
  std::string last;
  while (!data.empty()) {
    const std::size_t end = std::min(data.find('\n'), data.size());
    std::string_view line = data.substr(0, end);
    const std::size_t text = line.find_last_not_of('\r');
    std::size_t from = text == std::string_view::npos ? text : line.rfind('\r', text);
    if (from != std::string_view::npos && from > 0) from = line.rfind('\r', from - 1);
    if (from != std::string_view::npos) line.remove_prefix(from);
    last.append(line);
    if (end < data.size()) last.push_back('\n');
    data.remove_prefix(std::min(end + 1, data.size()));
  }
  return last;
}

}  // namespace

void ProgressTracker::Take(int stream, std::string_view data) {
  std::string& kept = kept_[static_cast<std::size_t>(stream)];
  bool& torn = torn_[static_cast<std::size_t>(stream)];
  if (data.size() > kKeptBytes) {
    data.remove_prefix(data.size() - kKeptBytes);
    torn = true;
    kept.clear();
  }
  if (kept.size() + data.size() > kKeptBytes) {
    kept.erase(0, kept.size() + data.size() - kKeptBytes);
    torn = true;
  }
  kept.append(data);
}

std::optional<std::int64_t> ProgressTracker::NextLookMs() const {
  if (kept_[0].empty() && kept_[1].empty()) return std::nullopt;
  if (!last_look_ms_) return 0;
  const std::int64_t age_ms = *last_look_ms_ - *first_look_ms_;
  return *last_look_ms_ + std::clamp(age_ms / kGapShare, kFirstGapMs, kLastGapMs);
}

std::optional<ProgressReport> ProgressTracker::Look(std::int64_t now_ms) {
  if (!first_look_ms_) first_look_ms_ = now_ms;
  last_look_ms_ = now_ms;
  for (std::size_t stream = 0; stream < kept_.size(); ++stream) {
    std::string_view data = kept_[stream];
    if (torn_[stream]) {
      // The beginning of the first line was cut off, and the remaining digits could be misread.
      const std::size_t end = std::min(data.find_first_of("\r\n"), data.size());
      reader_.Feed(static_cast<int>(stream), "\n");
      data.remove_prefix(end);
    }
    reader_.Feed(static_cast<int>(stream), LastOnEachLine(data));
    kept_[stream].clear();
    torn_[stream] = false;
  }
  const Progress progress = reader_.Now();
  if (!progress.found()) return std::nullopt;
  const std::optional<ProgressReport> before = report_;
  Update(progress, now_ms);
  return report_ == before ? std::nullopt : report_;
}

void ProgressTracker::Update(const Progress& progress, std::int64_t now_ms) {
  const bool changed = !report_ || report_->done != *progress.done ||
                       report_->total != progress.total || report_->epoch != progress.epoch ||
                       report_->phase != ToText(progress.phase);
  if (!report_) report_ = ProgressReport{.changed_ms = now_ms};
  if (changed) {
    report_->longest_step_ms = std::max(report_->longest_step_ms, now_ms - report_->changed_ms);
    report_->changed_ms = now_ms;
  }
  report_->phase = ToText(progress.phase);
  report_->unit = progress.unit;
  report_->done = *progress.done;
  report_->total = progress.total;
  report_->rate_per_s = progress.rate_per_s;
  report_->loss = progress.loss;
  report_->epoch = progress.epoch;
  report_->fraction = progress.run_fraction;
  ExpectEnd(progress, now_ms);
}

// Predicts when the run will end. The prediction stays the same while the fraction does not change,
// such as during an evaluation.
void ProgressTracker::ExpectEnd(const Progress& progress, std::int64_t now_ms) {
  if (!progress.run_fraction) {
    first_.reset();
    last_.reset();
    report_->ends_ms.reset();
    return;
  }
  const double fraction = *progress.run_fraction;
  if (last_ && last_->fraction == fraction) return;
  if (!first_ || fraction < last_->fraction) first_ = Moment{now_ms, fraction};
  last_ = Moment{now_ms, fraction};
  const double done = fraction - first_->fraction;
  const auto span_ms = static_cast<double>(now_ms - first_->at_ms);
  std::optional<double> left_ms;
  if (progress.run_left_s) left_ms = *progress.run_left_s * 1000;
  if (done >= kLeastFraction && span_ms >= static_cast<double>(kLeastSpanMs))
    left_ms = (1 - fraction) * span_ms / done;
  report_->ends_ms.reset();
  if (left_ms && *left_ms < kMostLeftMs)
    report_->ends_ms = now_ms + static_cast<std::int64_t>(std::llround(*left_ms));
}

}  // namespace carma::task
