#include "report/tally.h"

#include <algorithm>
#include <cmath>

namespace carma::report {

using base::Duration;
using base::Seconds;

namespace {

double NearestRank(const std::vector<double>& sorted, double fraction) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  double sum = 0;
  for (const double value : values) sum += value;
  return {.mean = sum / static_cast<double>(values.size()),
          .median = NearestRank(values, 0.5),
          .p95 = NearestRank(values, 0.95),
          .max = values.back()};
}

TaskOutcome OutcomeOf(const RunTask& task) {
  TaskOutcome outcome{.state = task.state,
                      .group = task.group,
                      .user = task.user,
                      .submitted = task.submitted,
                      .ended = task.ended,
                      .solo_s = task.solo_s,
                      .whole_solo_s = task.whole_solo_s,
                      .lost_s = task.lost_s,
                      .gpus = task.gpus,
                      .attempts = static_cast<int>(task.attempts.size())};
  for (const Attempt& attempt : task.attempts) {
    const Duration length = std::max(Duration::zero(), attempt.ended - attempt.started);
    outcome.executed = outcome.executed.value_or(Duration::zero()) + length;
    outcome.last_executed = length;
    outcome.out_of_queue += attempt.out_of_queue;
    if (attempt.end == AttemptEnd::kOutOfMemory) ++outcome.ooms;
  }
  return outcome;
}

void Tally::Add(const TaskOutcome& task) {
  ++by_state_[task.state];
  attempts_ += task.attempts;
  auto group = groups_.find(task.group);
  if (group == groups_.end()) group = groups_.emplace(std::string(task.group), Group{}).first;
  ++group->second.tasks;
  group->second.oom_crashes += task.ooms;
  if (!task.ended) return;
  first_ = std::min(first_.value_or(task.submitted), task.submitted);
  last_ = std::max(last_.value_or(*task.ended), *task.ended);
  if (!task.executed) return;
  const Duration whole = task.Whole();
  const bool comparable = task.state == core::TaskState::kSucceeded && task.last_executed &&
                          task.solo_s && *task.solo_s > 0;
  group->second.samples.push_back(
      {.waiting_s = Seconds(whole - *task.executed),
       .execution_s = Seconds(*task.executed),
       .slowdown = comparable ? Seconds(*task.last_executed) / *task.solo_s : kUnknown});
  if (task.lost_s) lost_s_.push_back(*task.lost_s);
  if (task.user.empty()) return;
  auto user = users_.find(task.user);
  if (user == users_.end()) user = users_.emplace(std::string(task.user), User{}).first;
  User& of = user->second;
  ++of.tasks;
  of.gpu_ms += task.gpus * task.executed->count();
  of.waiting_s.push_back(Seconds(whole - *task.executed));
  const double whole_s = task.whole_solo_s.value_or(task.solo_s.value_or(0));
  const double alone_s = whole_s > 0 ? whole_s : Seconds(*task.executed);
  if (alone_s > 0) of.stretch.push_back(Seconds(whole) / alone_s);
}

double JainIndex(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

void Tally::MeasureUsers(Metrics& metrics) const {
  if (users_.size() < 2) return;
  std::vector<double> stretches;
  for (const auto& [name, user] : users_) {
    UserMetrics& of = metrics.users.emplace_back();
    of.name = name;
    of.tasks = user.tasks;
    of.gpu_s = static_cast<double>(user.gpu_ms) / 1000;
    of.waiting_mean_s = SpreadOf(user.waiting_s).mean;
    of.stretch_mean = SpreadOf(user.stretch).mean;
    if (!user.stretch.empty()) stretches.push_back(of.stretch_mean);
    metrics.worst_user_waiting_s =
        std::max(metrics.worst_user_waiting_s.value_or(0), of.waiting_mean_s);
  }
  metrics.jain = JainIndex(stretches);
}

void Tally::Add(const GpuSpan& span) {
  if (span.length <= Duration::zero()) return;
  const auto index = static_cast<std::size_t>(span.gpu);
  if (index >= gpus_.size()) gpus_.resize(index + 1);
  GpuSums& sums = gpus_[index];
  const double length_s = Seconds(span.length);
  sums.covered_s += length_s;
  sums.mib_s += span.used_mib * length_s;
  if (!std::isnan(span.sm_active)) {
    sums.sm_s += span.sm_active * length_s;
    sums.sm_covered_s += length_s;
  }
  sums.energy_j += span.energy_j;
}

GroupMetrics Tally::Measure(const Group& group) {
  GroupMetrics metrics;
  metrics.tasks = group.tasks;
  metrics.oom_crashes = group.oom_crashes;
  metrics.executed = static_cast<std::int64_t>(group.samples.size());
  std::vector<double> waiting, execution, jct, slowdown;
  for (std::vector<double>* each : {&waiting, &execution, &jct})
    each->reserve(group.samples.size());
  for (const Sample& sample : group.samples) {
    waiting.push_back(sample.waiting_s);
    execution.push_back(sample.execution_s);
    jct.push_back(sample.waiting_s + sample.execution_s);
    if (!std::isnan(sample.slowdown)) slowdown.push_back(sample.slowdown);
  }
  metrics.waiting = SpreadOf(std::move(waiting));
  metrics.execution = SpreadOf(std::move(execution));
  metrics.jct = SpreadOf(std::move(jct));
  if (!slowdown.empty()) metrics.slowdown = SpreadOf(std::move(slowdown));
  return metrics;
}

Metrics Tally::Finish() const {
  Metrics metrics;
  Group all;
  for (const auto& [name, group] : groups_) {
    all.tasks += group.tasks;
    all.oom_crashes += group.oom_crashes;
    all.samples.insert(all.samples.end(), group.samples.begin(), group.samples.end());
    if (name.empty()) continue;
    metrics.groups.push_back(Measure(group));
    metrics.groups.back().name = name;
  }
  const GroupMetrics whole = Measure(all);
  metrics.tasks_by_state.assign(by_state_.begin(), by_state_.end());
  metrics.tasks = whole.tasks;
  metrics.executed = whole.executed;
  metrics.oom_crashes = whole.oom_crashes;
  metrics.attempts = attempts_;
  metrics.waiting = whole.waiting;
  metrics.execution = whole.execution;
  metrics.jct = whole.jct;
  metrics.slowdown = whole.slowdown;
  if (first_) {
    metrics.first_submitted = *first_;
    metrics.last_ended = *last_;
    metrics.trace_total_s = Seconds(*last_ - *first_);
  }

  MeasureUsers(metrics);
  const double executed_s = whole.execution.mean * static_cast<double>(whole.executed);
  if (!lost_s_.empty() && executed_s > 0) {
    const double lost_s = SpreadOf(lost_s_).mean * static_cast<double>(lost_s_.size());
    metrics.lost_share = lost_s / executed_s;
  }

  GpuSums sums;
  for (const GpuSums& gpu : gpus_) {
    if (gpu.covered_s > 0) ++metrics.gpus;
    sums.covered_s += gpu.covered_s;
    sums.mib_s += gpu.mib_s;
    sums.sm_s += gpu.sm_s;
    sums.sm_covered_s += gpu.sm_covered_s;
    sums.energy_j += gpu.energy_j;
  }
  if (metrics.gpus == 0) return metrics;
  const auto gpu_count = static_cast<double>(metrics.gpus);
  if (metrics.trace_total_s > 0)
    metrics.gpu_coverage = sums.covered_s / (gpu_count * metrics.trace_total_s);
  metrics.memory_used_mib = sums.mib_s / sums.covered_s;
  if (sums.sm_covered_s > 0) metrics.sm_active = sums.sm_s / sums.sm_covered_s;
  // If any span has no energy reading, no energy is reported, because the sum would be too low.
  if (std::isnan(sums.energy_j)) return metrics;
  metrics.energy_mj = sums.energy_j / 1e6;
  metrics.power_w = sums.energy_j / (sums.covered_s / gpu_count);
  return metrics;
}

}  // namespace carma::report
