#include "daemon/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "daemon/gpu_history.h"
#include "daemon/present.h"

namespace carma::daemon {
namespace {

// Spans of equal ends, so that the curve of an idle server is the same text every second.
constexpr base::Duration kRecentSpan{15'000};
constexpr int kRecentSpans = 60;
// A reading holds for at most so long; slower servers show holes.
constexpr base::Duration kLongestReading{30'000};

std::optional<double> Rounded(const std::optional<double>& value, double step) {
  return value ? std::optional(std::round(*value / step) * step) : std::nullopt;
}

std::vector<std::int64_t> Recent(core::GpuIndex gpu, const Monitor& monitor, base::Time now) {
  const auto spans = base::ToMs(now) / kRecentSpan.count() + 1;
  const base::Time to = base::FromMs(spans * kRecentSpan.count());
  const base::Time from = to - kRecentSpans * kRecentSpan;
  const GpuTimeline timeline(from, to, kRecentSpans, monitor.History(gpu, from, to),
                             kLongestReading);
  std::vector<std::int64_t> percent(kRecentSpans, -1);
  for (const api::GpuHistoryView::Point& point : timeline.Points()) {
    const auto i = (point.from_ms - base::ToMs(from)) / kRecentSpan.count();
    if (point.sm_active && i >= 0 && i < kRecentSpans)
      percent[static_cast<std::size_t>(i)] = std::lround(*point.sm_active * 100);
  }
  return percent;
}

std::string ReservedText(const std::vector<api::GpuView::Reserved>& reserved) {
  if (reserved.empty()) return "";
  const api::GpuView::Reserved& first = reserved.front();
  const std::int64_t turn_ms = first.holds ? first.to_ms : first.from_ms;
  return fmt::format("for {} {} {}", first.whom, first.holds ? "until" : "from",
                     base::FormatTime(base::FromMs(turn_ms)).substr(0, 16));
}

api::GpuGlance Glance(api::GpuView gpu, const Monitor& monitor, base::Time now) {
  const auto index = static_cast<core::GpuIndex>(gpu.index);
  api::GpuGlance glance;
  glance.index = gpu.index;
  glance.uuid = std::move(gpu.uuid);
  glance.name = std::move(gpu.name);
  glance.mig_profile = std::move(gpu.mig_profile);
  glance.state = std::move(gpu.state);
  glance.trouble = std::move(gpu.trouble);
  glance.drained_by_rule = gpu.drained_by_rule;
  glance.alerts = std::move(gpu.alerts);
  glance.reserved = ReservedText(gpu.reserved);
  glance.total_mib = gpu.total_mib - gpu.reserved_mib;
  glance.used_mib = gpu.used_mib;
  glance.promised_mib = gpu.promised_mib;
  glance.foreign_mib = gpu.foreign_mib;
  glance.free_mib = gpu.free_mib;
  glance.sm_active = Rounded(gpu.sm_active, 0.01);
  glance.sm_active_now = Rounded(gpu.sm_active_now, 0.01);
  glance.power_w = Rounded(gpu.power_w, 1);
  glance.temperature_c = Rounded(gpu.temperature_c, 1);
  if (!monitor.Fresh(index) && gpu.sample_age_ms)
    glance.read_ms = base::ToMs(now) - *gpu.sample_age_ms;
  glance.recent = Recent(index, monitor, now);
  glance.tasks = std::move(gpu.tasks);
  for (api::GpuTaskView& task : glance.tasks) task.sm_active = Rounded(task.sm_active, 0.01);
  glance.foreign = std::move(gpu.foreign);
  return glance;
}

api::TaskRow Row(const api::TaskView& task) {
  api::TaskRow row;
  row.id = task.id;
  row.name = task.name;
  row.user = task.user;
  row.state = task.state;
  row.reason = task.reason;
  row.reason_text = task.reason_text;
  row.gpus = task.gpus;
  row.gpu_indices = task.gpu_indices;
  row.claim_mib = task.claim_mib;
  row.bound_mib = task.bound_mib;
  row.observed_mib = task.observed_mib;
  row.peak_mib = task.peak_mib;
  row.over_promise_mib = task.over_promise_mib;
  row.wrong_gpus = task.wrong_gpus;
  row.exclusive = task.exclusive;
  row.priority = task.priority;
  row.attempt = task.attempt;
  row.ooms = task.ooms;
  row.submitted_ms = task.submitted_ms;
  row.launched_ms = task.launched_ms;
  row.ended_ms = task.ended_ms;
  row.time_limit_s = task.time_limit_s;
  row.exit_code = task.exit_code;
  row.signal = task.signal;
  row.exit_detail = task.exit_detail;
  row.sharing = task.sharing;
  row.idle_since_ms = task.idle_since_ms;
  row.array_id = task.array_id;
  row.array_index = task.array_index;
  return row;
}

std::vector<core::TaskState> StatesWhere(bool (*holds)(core::TaskState)) {
  std::vector<core::TaskState> states;
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    if (const auto state = static_cast<core::TaskState>(i); holds(state)) states.push_back(state);
  }
  return states;
}

bool Waits(core::TaskState state) {
  return !core::IsFinal(state) && !core::HoldsGpus(state);
}

}  // namespace

api::OverviewView Overview(const api::StatusView& status, const std::string& host, bool simulated) {
  api::OverviewView view;
  view.version = status.version;
  view.host = host;
  view.now_ms = status.now_ms;
  view.time_scale = status.time_scale;
  view.simulated = simulated;
  view.starting = status.starting;
  view.driver = status.driver;
  view.policy = status.policy;
  view.collocation = status.collocation;
  view.troubles = status.troubles;
  view.task_counts = status.task_counts;
  return view;
}

void AddTasksAndGpus(Engine& engine, const Monitor& monitor, base::Time now,
                     api::OverviewView& view) {
  for (api::GpuView& gpu : PresentGpus(engine, monitor, now))
    view.gpus.push_back(Glance(std::move(gpu), monitor, now));
  const auto list = [&](bool (*holds)(core::TaskState), std::size_t limit, bool newest_first) {
    std::vector<api::TaskRow> rows;
    store::TaskFilter filter;
    filter.states = StatesWhere(holds);
    filter.limit = limit;
    filter.newest_first = newest_first;
    const base::Result<std::vector<store::StoredTask>> found = engine.store().List(filter);
    // The page shows the store's trouble as one of `troubles`.
    if (!found) return rows;
    for (const store::StoredTask& stored : *found)
      rows.push_back(Row(Present(stored, engine, monitor, engine.attribution(), now)));
    return rows;
  };
  view.running = list(&core::HoldsGpus, kMostRunningRows, false);
  view.waiting = list(&Waits, kMostWaitingRows, false);
  view.ended = list(&core::IsFinal, kMostEndedRows, true);
  std::stable_sort(view.ended.begin(), view.ended.end(),
                   [](const api::TaskRow& a, const api::TaskRow& b) {
                     return a.ended_ms.value_or(0) > b.ended_ms.value_or(0);
                   });
}

std::vector<api::UserView> Users(Engine& engine) {
  struct Holdings {
    core::TaskId any{};
    api::UserView view;
    std::set<core::GpuIndex> gpus;
  };
  std::map<std::uint32_t, Holdings> by_uid;
  for (const auto& [id, record] : engine.scheduler().Tasks()) {
    Holdings& user = by_uid[record.request.uid];
    user.any = id;
    if (!core::HoldsGpus(record.state)) {
      ++user.view.waiting;
      continue;
    }
    ++user.view.running;
    for (const core::Placement& placement : record.attempt.placement) {
      user.gpus.insert(placement.gpu);
      user.view.promised_mib += placement.claim_mib;
    }
  }
  std::vector<api::UserView> users;
  for (auto& [uid, user] : by_uid) {
    user.view.uid = uid;
    user.view.gpus = static_cast<std::int64_t>(user.gpus.size());
    const base::Result<store::StoredTask> stored = engine.store().Get(user.any);
    user.view.user = stored ? stored->user : std::to_string(uid);
    users.push_back(std::move(user.view));
  }
  std::sort(users.begin(), users.end(),
            [](const api::UserView& a, const api::UserView& b) { return a.user < b.user; });
  return users;
}

}  // namespace carma::daemon
