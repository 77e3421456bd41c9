#include "daemon/present/overview.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "daemon/gpus/gpu_history.h"
#include "daemon/present/present.h"

namespace carma::daemon {
namespace {

// Spans begin at multiples of this length, so that an idle server's curve does not change every
// second.
constexpr base::Duration kRecentSpan{15'000};
constexpr int kRecentSpans = 60;
// A reading is valid for at most this long. Servers with a longer sampling period show gaps.
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

api::GpuGlance Glance(api::GpuView gpu, const Monitor& monitor, base::Time now) {
  const auto index = static_cast<core::GpuIndex>(gpu.index);
  api::GpuGlance glance{std::move(gpu), {}, Recent(index, monitor, now)};
  glance.total_mib -= glance.reserved_mib;
  glance.sm_active = Rounded(glance.sm_active, 0.01);
  glance.sm_active_now = Rounded(glance.sm_active_now, 0.01);
  glance.power_w = Rounded(glance.power_w, 1);
  glance.temperature_c = Rounded(glance.temperature_c, 1);
  if (!monitor.Fresh(index) && glance.sample_age_ms)
    glance.read_ms = base::ToMs(now) - *glance.sample_age_ms;
  for (api::GpuTaskView& task : glance.tasks) task.sm_active = Rounded(task.sm_active, 0.01);
  return glance;
}

bool Waits(core::TaskState state) {
  return !core::IsFinal(state) && !core::HoldsGpus(state);
}

// Rounds up to a whole minute, so that the value does not change every second.
std::optional<std::int64_t> NextMinuteMs(const std::optional<base::Time>& at) {
  if (!at) return std::nullopt;
  constexpr std::int64_t kMinuteMs = 60'000;
  return (base::ToMs(*at) + kMinuteMs - 1) / kMinuteMs * kMinuteMs;
}

// The data that the overview is built from.
struct Shown {
  Engine& engine;
  const Monitor& monitor;
  base::Time now;

  api::TaskRow RowOf(const store::StoredTask& stored) const {
    api::TaskRow row{Present(stored, engine, monitor, engine.attribution(), now), {}};
    HideErrors(row);  // all readers of the page get the same text
    return row;
  }
  // Returns no rows if the store cannot be read; the overview shows the error in `troubles`.
  std::vector<api::TaskRow> List(bool (*holds)(core::TaskState), std::size_t limit,
                                 bool newest_first) const {
    std::vector<api::TaskRow> rows;
    store::TaskFilter filter;
    filter.states = store::StatesWhere(holds);
    filter.limit = limit;
    filter.newest_first = newest_first;
    const Result<std::vector<store::StoredTask>> found = engine.store().List(filter);
    if (!found) return rows;
    for (const store::StoredTask& stored : *found) rows.push_back(RowOf(stored));
    return rows;
  }
};

void AddLine(const Shown& shown, const std::vector<core::TaskId>& line, std::size_t most,
             const std::map<core::TaskId, core::ExpectedStart>& starts,
             std::vector<api::TaskRow>& rows) {
  for (std::size_t i = 0; i < std::min(most, line.size()); ++i) {
    const Result<store::StoredTask> stored = shown.engine.store().Get(line[i]);
    if (!stored) continue;
    api::TaskRow& row = rows.emplace_back(shown.RowOf(*stored));
    row.turn = static_cast<std::int64_t>(i + 1);
    const auto at = starts.find(line[i]);
    if (at == starts.end()) continue;
    row.latest_start_ms = NextMinuteMs(at->second.latest);
    row.likely_start_ms = NextMinuteMs(at->second.likely);
  }
}

std::vector<api::TaskRow> WaitingRows(const Shown& shown, KeptStarts& kept) {
  const core::Scheduler& core = shown.engine.scheduler();
  const core::TasksInLine line = core.InLine(kMostWaitingRows);
  const auto& starts = kept.At(core, shown.now);
  std::vector<api::TaskRow> rows;
  // Some rows are reserved for tasks without GPUs, so that the queue for GPUs does not fill the
  // list.
  const std::size_t without = std::min(line.without_gpus.size(), kMostWaitingRows / 4);
  AddLine(shown, line.with_gpus, kMostWaitingRows - without, starts, rows);
  AddLine(shown, line.without_gpus, kMostWaitingRows - rows.size(), starts, rows);
  if (rows.size() >= kMostWaitingRows) return rows;
  std::set<std::uint64_t> in_line;
  for (const api::TaskRow& row : rows) in_line.insert(row.id);
  for (api::TaskRow& row : shown.List(&Waits, kMostWaitingRows + rows.size(), false)) {
    if (rows.size() < kMostWaitingRows && !in_line.contains(row.id)) rows.push_back(std::move(row));
  }
  return rows;
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

const std::map<core::TaskId, core::ExpectedStart>& KeptStarts::At(const core::Scheduler& core,
                                                                  base::Time now) {
  constexpr base::Duration kKept{5'000};
  if (!looked_ || now - *looked_ >= kKept) {
    starts_ = core.ExpectedStarts(now, kMostWaitingRows);
    looked_ = now;
  }
  return starts_;
}

void AddTasksAndGpus(Engine& engine, const Monitor& monitor, KeptStarts& starts, base::Time now,
                     api::OverviewView& view) {
  for (api::GpuView& gpu : PresentGpus(engine, monitor, now))
    view.gpus.push_back(Glance(std::move(gpu), monitor, now));
  const Shown shown{engine, monitor, now};
  view.running = shown.List(&core::HoldsGpus, kMostRunningRows, false);
  view.waiting = WaitingRows(shown, starts);
  view.ended = shown.List(&core::IsFinal, kMostEndedRows, true);
  std::ranges::stable_sort(view.ended, [](const api::TaskRow& a, const api::TaskRow& b) {
    return a.ended_ms.value_or(0) > b.ended_ms.value_or(0);
  });
}

std::vector<api::UserView> Users(Engine& engine) {
  struct Holdings {
    api::UserView view;
    std::set<core::GpuIndex> gpus;
  };
  std::map<std::uint32_t, Holdings> by_uid;
  for (const auto& [id, record] : engine.scheduler().Tasks()) {
    Holdings& user = by_uid[record.request->uid];
    if (user.view.user.empty()) user.view.user = core::UserOf(record.request);
    if (!core::HoldsGpus(record.state)) {
      ++user.view.waiting;
      continue;
    }
    ++user.view.running;
    for (const core::Placement& placement : record.attempt->placement) {
      user.gpus.insert(placement.gpu);
      user.view.promised_mib += placement.claim_mib;
    }
  }
  std::vector<api::UserView> users;
  for (auto& [uid, user] : by_uid) {
    user.view.uid = uid;
    user.view.gpus = static_cast<std::int64_t>(user.gpus.size());
    users.push_back(std::move(user.view));
  }
  std::ranges::sort(users,
                    [](const api::UserView& a, const api::UserView& b) { return a.user < b.user; });
  return users;
}

}  // namespace carma::daemon
