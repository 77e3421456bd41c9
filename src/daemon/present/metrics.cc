#include "daemon/present/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>

#include "daemon/gpus/policy_violations.h"
#include "daemon/loop/own_process.h"
#include "daemon/present/overview.h"
#include "report/forecast.h"

namespace carma::daemon {
namespace {

constexpr double kErrorBounds[] = {0.5, 0.75, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0};

constexpr double Bytes(std::int64_t mib) {
  return static_cast<double>(mib) * 1024.0 * 1024.0;
}

struct GpuGauge {
  const char* name;
  const char* help;
  bool measured;  // omitted before the first reading
  double (*read)(const core::GpuView& view, const gpu::Reading& last);
};

constexpr GpuGauge kGpuGauges[] = {
    {"carma_gpu_memory_total_bytes", "Total GPU memory.", true,
     [](const core::GpuView&, const gpu::Reading& last) { return Bytes(last.total_mib); }},
    {"carma_gpu_memory_reserved_bytes", "Memory reserved by the driver.", true,
     [](const core::GpuView&, const gpu::Reading& last) { return Bytes(last.reserved_mib); }},
    {"carma_gpu_memory_used_bytes", "Memory used by all processes.", true,
     [](const core::GpuView&, const gpu::Reading& last) { return Bytes(last.used_mib); }},
    {"carma_gpu_memory_claimed_bytes", "Memory claimed by tasks, counted from the launch decision.",
     false, [](const core::GpuView& view, const gpu::Reading&) { return Bytes(view.claimed_mib); }},
    {"carma_gpu_memory_promised_bytes",
     "Memory promised to tasks: the claim, or less once a task's memory usage stops growing.",
     false,
     [](const core::GpuView& view, const gpu::Reading&) { return Bytes(view.promised_mib); }},
    {"carma_gpu_memory_free_bytes", "Memory available for new promises.", false,
     [](const core::GpuView& view, const gpu::Reading&) { return Bytes(view.free_mib); }},
    {"carma_gpu_memory_foreign_bytes", "Memory used by processes that CARMA did not start.", true,
     [](const core::GpuView& view, const gpu::Reading&) { return Bytes(view.foreign_mib); }},
    {"carma_gpu_tasks", "CARMA's tasks on the GPU, including those being launched.", false,
     [](const core::GpuView& view, const gpu::Reading&) {
       return static_cast<double>(view.tasks);
     }},
};

// A metric that is omitted when its value is unknown.
struct SometimesGauge {
  const char* name;
  const char* help;
  std::optional<double> (*read)(const Monitor& monitor, core::GpuIndex gpu);
};

std::optional<double> Unattributed(const Monitor& monitor, core::GpuIndex gpu) {
  const std::optional<std::int64_t>& mib = monitor.Use(gpu).unattributed_mib;
  return mib ? std::optional(Bytes(*mib)) : std::nullopt;
}

template <std::optional<double> gpu::Reading::*kValue>
std::optional<double> LastRead(const Monitor& monitor, core::GpuIndex gpu) {
  const std::optional<gpu::Reading>& last = monitor.LastReading(gpu);
  return last ? (*last).*kValue : std::nullopt;
}

constexpr SometimesGauge kSometimesGauges[] = {
    {"carma_gpu_power_watts", "Power draw.", &LastRead<&gpu::Reading::power_w>},
    {"carma_gpu_temperature_celsius", "GPU temperature.", &LastRead<&gpu::Reading::temperature_c>},
    {"carma_gpu_utilization_ratio", "Fraction of the last sampling period in which a kernel ran.",
     &LastRead<&gpu::Reading::utilization>},
    {"carma_gpu_memory_unattributed_bytes",
     "Memory in use that belongs to no listed process; absent if any process's memory is unknown.",
     &Unattributed},
    {"carma_gpu_sm_active_ratio", "Mean SM activity over the window.",
     [](const Monitor& monitor, core::GpuIndex gpu) { return monitor.WindowMean(gpu); }},
    {"carma_gpu_sm_active_p95_ratio", "95th percentile of the SM activity over the window.",
     [](const Monitor& monitor, core::GpuIndex gpu) { return monitor.WindowP95(gpu); }},
    {"carma_gpu_sm_active_ewma_ratio",
     "Exponentially weighted average of the SM activity; reacts to changes faster than the mean.",
     [](const Monitor& monitor, core::GpuIndex gpu) { return monitor.WindowEwma(gpu); }},
};

using LabelsOf = std::function<api::Labels(const core::GpuView&)>;

void WriteHealth(const std::vector<core::GpuView>& views, const LabelsOf& labels,
                 api::MetricsText& out) {
  out.Begin("carma_gpu_health", "gauge",
            "1 if the GPU's health allows new tasks, otherwise 0; absent while the GPU is not read "
            "because an administrator has drained it.");
  for (const core::GpuView& view : views) {
    if (!view.LeftAlone()) out.Sample(view.healthy ? 1 : 0, labels(view));
  }
}

void WriteDrains(const std::vector<core::GpuView>& views, const LabelsOf& labels,
                 api::MetricsText& out) {
  out.Begin("carma_gpu_drained", "gauge",
            "1 if an administrator or the health rules have closed the GPU to new tasks.");
  for (const core::GpuView& view : views) {
    for (const bool by_rule : {false, true}) {
      api::Labels with_who = labels(view);
      with_who.emplace_back("by", by_rule ? "rule" : "person");
      out.Sample(view.drained && view.drained_by_rule == by_rule ? 1 : 0, with_who);
    }
  }
}

void WriteReserved(const std::vector<core::GpuView>& views, const LabelsOf& labels,
                   api::MetricsText& out) {
  out.Begin("carma_gpu_reserved", "gauge", "1 while the GPU is reserved.");
  for (const core::GpuView& view : views) {
    const bool now = !view.booked.empty() && view.booked.front()->from <= view.at;
    out.Sample(now ? 1 : 0, labels(view));
  }
}

void WriteXids(const std::vector<core::GpuView>& views, const LabelsOf& labels,
               const Monitor& monitor, api::MetricsText& out) {
  out.Begin("carma_gpu_xid_total", "counter",
            "Critical errors that the driver reported since the daemon started, by Xid.");
  for (const core::GpuView& view : views) {
    for (const auto& [xid, count] : monitor.XidCounts(view.index)) {
      api::Labels with_xid = labels(view);
      with_xid.emplace_back("xid", std::to_string(xid));
      out.Sample(count, with_xid);
    }
  }
}

// Writes how many tasks are idle, exceed their promise, use GPUs that were not assigned to them, or
// must leave.
void WriteMarkedTasks(Engine& engine, const Monitor& monitor, api::MetricsText& out) {
  const std::int64_t margin_mib = engine.scheduler().config().margin_mib;
  std::size_t idle = 0;
  std::size_t over = 0;
  std::size_t elsewhere = 0;
  std::size_t leaving = 0;
  for (const core::TaskId id : engine.attribution().Tasks()) {
    const core::TaskRecord* record = engine.scheduler().Find(id);
    if (record == nullptr) continue;
    if (record->attempt->idle_since) ++idle;
    if (record->attempt->leaves_by) ++leaving;
    if (OverPromiseMib(*record, margin_mib, monitor) > 0) ++over;
    if (!WrongGpus(*record, monitor).empty()) ++elsewhere;
  }
  out.One("carma_idle_holders", "gauge", "Tasks that hold GPUs without using them.", idle);
  out.One("carma_tasks_leaving", "gauge",
          "Tasks that were asked to checkpoint because they must leave their GPUs.", leaving);
  out.One("carma_tasks_over_promise", "gauge",
          "Tasks that use more GPU memory than their promise and margin.", over);
  out.One("carma_tasks_on_wrong_gpu", "gauge",
          "Tasks with processes on GPUs that were not assigned to them.", elsewhere);
}

// Writes a series for every state, even if no task has it, because series used by alerts must not
// disappear.
void WriteTaskCounts(store::Store& store, const Counters& counters, api::MetricsText& out) {
  std::map<core::TaskState, std::int64_t> by_state;
  const auto counted = store.Counts();
  if (counted) by_state.insert(counted->begin(), counted->end());
  const auto each_state = [](auto&& write) {
    for (int i = 0; i < core::kTaskStateCount; ++i) {
      const auto state = static_cast<core::TaskState>(i);
      write(state, std::string(core::TaskStateName(state)));
    }
  };
  out.Begin("carma_tasks", "gauge", "Tasks in the store, by state.");
  if (counted) {
    each_state([&](core::TaskState state, const std::string& name) {
      out.Sample(by_state[state], {{"state", name}});
    });
  }
  out.Begin("carma_ended_total", "counter",
            "Tasks that ended since the daemon started, by final state.");
  each_state([&](core::TaskState state, const std::string& name) {
    if (!core::IsFinal(state)) return;
    const auto ended = counters.ended.find(name);
    out.Sample(ended == counters.ended.end() ? 0 : ended->second, {{"state", name}});
  });
}

// Whether this reason means waiting for GPUs, rather than for a release, a time or a dependency.
bool IsForGpus(core::ReasonCode why) {
  using enum core::ReasonCode;
  constexpr core::ReasonCode kOthers[] = {kHeld, kBeginTime, kDependency, kDependencyNeverMet,
                                          kArrayLimit};
  return std::ranges::find(kOthers, why) == std::end(kOthers);
}

void WriteQueue(Engine& engine, base::Time now, api::MetricsText& out) {
  base::Duration oldest{0};
  for (const auto& [id, record] : engine.scheduler().Tasks()) {
    if (record.state != core::TaskState::kQueued) continue;
    // Computing a reason is slow, so it is done only for tasks that have waited longer than the
    // longest wait found so far. Tasks are visited oldest first, so these are few.
    const base::Duration wait = now - record.queued_since;
    if (wait > oldest && IsForGpus(engine.scheduler().ReasonFor(id, now).code)) oldest = wait;
  }
  out.One("carma_queue_oldest_wait_seconds", "gauge",
          "Longest time that a queued task has been waiting for GPUs; 0 if none is waiting. "
          "Excludes held tasks and tasks waiting for a start time or other tasks.",
          base::Seconds(oldest));
}

struct UserGauge {
  const char* name;
  const char* help;
  double (*read)(const api::UserView& user);
};
constexpr UserGauge kUserGauges[] = {
    {"carma_user_tasks_running", "The user's tasks on GPUs.",
     [](const api::UserView& user) { return static_cast<double>(user.running); }},
    {"carma_user_tasks_waiting", "The user's waiting tasks.",
     [](const api::UserView& user) { return static_cast<double>(user.waiting); }},
    {"carma_user_gpus", "GPUs that hold at least one of the user's tasks.",
     [](const api::UserView& user) { return static_cast<double>(user.gpus); }},
    {"carma_user_memory_promised_bytes", "GPU memory promised to the user's tasks.",
     [](const api::UserView& user) { return Bytes(user.promised_mib); }},
};

void WriteUsers(Engine& engine, api::MetricsText& out) {
  const std::vector<api::UserView> users = Users(engine);
  for (const UserGauge& gauge : kUserGauges) {
    out.Begin(gauge.name, "gauge", gauge.help);
    for (const api::UserView& user : users) out.Sample(gauge.read(user), {{"user", user.user}});
  }
}

// Writes the server's cores and memory, if CARMA manages them.
void WriteHost(const Engine& engine, api::MetricsText& out) {
  const core::HostView host = engine.scheduler().Host().View();
  if (host.cpus > 0) {
    out.One("carma_host_cpus", "gauge", "Cores that can be promised to tasks.", host.cpus);
    out.One("carma_host_cpus_promised", "gauge", "Cores promised to tasks.",
            host.cpus - host.free_cpus);
  }
  if (host.memory_mib > 0) {
    out.One("carma_host_memory_bytes", "gauge", "Host memory that can be promised to tasks.",
            Bytes(host.memory_mib));
    out.One("carma_host_memory_promised_bytes", "gauge", "Host memory promised to tasks.",
            Bytes(host.memory_mib - host.free_memory_mib));
  }
}

void WriteGpus(Engine& engine, const Monitor& monitor, base::Time now, api::MetricsText& out) {
  const std::vector<core::GpuView> views = engine.scheduler().Gpus(now);
  const LabelsOf labels = [&](const core::GpuView& view) {
    const gpu::DeviceInfo& device = monitor.devices().at(core::Number(view.index));
    return api::Labels{
        {"gpu", fmt::format("{}", view.index)}, {"uuid", device.uuid}, {"model", device.name}};
  };
  for (const GpuGauge& gauge : kGpuGauges) {
    out.Begin(gauge.name, "gauge", gauge.help);
    for (const core::GpuView& view : views) {
      const std::optional<gpu::Reading>& last = monitor.LastReading(view.index);
      if (last || !gauge.measured)
        out.Sample(gauge.read(view, last ? *last : gpu::Reading{}), labels(view));
    }
  }
  for (const SometimesGauge& gauge : kSometimesGauges) {
    out.Begin(gauge.name, "gauge", gauge.help);
    for (const core::GpuView& view : views) {
      if (const std::optional<double> value = gauge.read(monitor, view.index))
        out.Sample(*value, labels(view));
    }
  }
  out.Begin("carma_gpu_energy_joules_total", "counter", "Energy used since the driver was loaded.");
  for (const core::GpuView& view : views) {
    const std::optional<gpu::Reading>& last = monitor.LastReading(view.index);
    if (last && last->energy_j) out.Sample(*last->energy_j, labels(view));
  }
  out.Begin("carma_telemetry_age_seconds", "gauge", "Age of the last sample.");
  for (const core::GpuView& view : views) {
    const std::optional<gpu::Reading>& last = monitor.LastReading(view.index);
    if (last) out.Sample(base::Seconds(now - last->taken), labels(view));
  }
  WriteHealth(views, labels, out);
  WriteDrains(views, labels, out);
  WriteReserved(views, labels, out);
  out.One("carma_driver_upgrade", "gauge",
          "1 if the loaded driver differs from the installed one; no GPU tasks start in that case.",
          monitor.DriverUpgrade().empty() ? 0 : 1);
  WriteXids(views, labels, monitor, out);
  WriteMarkedTasks(engine, monitor, out);
}

}  // namespace

void Counters::Count(const core::TaskRecord& record) {
  const bool launching = record.state == core::TaskState::kLaunching;
  // A launching task is reported again once its sharing mode has been chosen. Only the first report
  // counts.
  if (launching && record.attempt->sharing.method == core::SharingMethod::kUnknown) {
    ++dispatches;
    wait_seconds.Observe(base::Seconds(*record.attempt->launched - record.queued_since));
  }
  if (!launching && record.reason.code == core::ReasonCode::kOutOfMemory) ++ooms;
  if (!core::IsFinal(record.state)) return;
  ++ended[std::string(core::TaskStateName(record.state))];
  // Users who specify the memory can also name the method. All such names are counted as "given",
  // to avoid one time series per name.
  const bool given = record.request->memory_mib.has_value();
  for (const report::Forecast& each : report::ForecastsOf(record)) {
    if (each.predicted <= 0) continue;
    Forecasts& of = forecasts[{each.what, given && each.what == "memory_mib" ? "given" : each.by}];
    of.ratio.Observe(each.seen / each.predicted);
    if (each.promised) ++(each.seen <= *each.promised ? of.kept : of.broken);
  }
  if (!record.estimate || record.peak_mib <= 0) return;
  const std::int64_t predicted_mib =
      record.estimate->predicted_mib.value_or(record.estimate->peak_mib);
  if (predicted_mib <= 0) return;
  const auto [at, added] = estimate_error.try_emplace(
      given ? "given" : record.estimate->method,
      std::vector<double>(std::begin(kErrorBounds), std::end(kErrorBounds)));
  at->second.Observe(static_cast<double>(record.peak_mib) / static_cast<double>(predicted_mib));
}

void Counters::Count(const EstimateResult& result) {
  // If the user stated the memory, the estimate has no prediction.
  const std::optional<core::Estimate>& estimate = result.estimate;
  const bool given = estimate && !estimate->predicted_mib;
  ++estimates[given ? "given" : estimate ? estimate->method : "none"];
  estimate_seconds.Observe(std::chrono::duration<double>(result.took).count());
}

void Counters::CountLate(double late_s) {
  loop_late_seconds.Observe(late_s);
  longest_turn_s = std::max(longest_turn_s, late_s);
}

namespace {

void WriteForecasts(const Counters& counters, api::MetricsText& out) {
  out.Begin("carma_forecast_ratio", "histogram",
            "Ratio of measured to predicted values, such as memory_mib, for finished tasks.");
  for (const auto& [of, each] : counters.forecasts)
    out.Sample(each.ratio, {{"what", of.first}, {"by", of.second}});
  out.Begin("carma_promises_total", "counter",
            "Finished tasks with a promised bound, by whether they stayed within it.");
  for (const auto& [of, each] : counters.forecasts) {
    for (const auto& [kept, count] :
         {std::pair{"true", each.kept}, std::pair{"false", each.broken}}) {
      out.Sample(count, {{"what", of.first}, {"by", of.second}, {"kept", kept}});
    }
  }
}

}  // namespace

std::string MetricsText(Engine* engine, const Monitor* monitor, store::Store& store,
                        const Counters& counters, const Configuration& configuration,
                        base::Time now, const std::string& version) {
  api::MetricsText out;
  out.Begin("carma_build_info", "gauge", "Always 1; the version is a label.");
  out.Sample(1, {{"version", version}});
  WriteTaskCounts(store, counters, out);
  out.One("carma_submissions_total", "counter", "Tasks accepted since the daemon started.",
          engine != nullptr ? engine->submissions() : 0);
  out.One("carma_dispatch_total", "counter", "Launch decisions since the daemon started.",
          counters.dispatches);
  out.One("carma_oom_total", "counter",
          "Attempts that ran out of GPU memory since the daemon started.", counters.ooms);
  out.One("carma_decision_seconds", "histogram",
          "Time that the daemon takes to make, store and carry out one round of decisions.",
          counters.turn_seconds);
  out.One("carma_loop_late_seconds", "histogram",
          "Event loop lag: how late a timer runs that is set to 50 ms whenever the loop has work.",
          counters.loop_late_seconds);
  out.One("carma_queue_wait_seconds", "histogram",
          "Time from entering the queue to the launch decision.", counters.wait_seconds);
  out.Begin("carma_estimate_error_ratio", "histogram",
            "Ratio of measured to predicted peak memory, for finished tasks.");
  for (const auto& [method, histogram] : counters.estimate_error)
    out.Sample(histogram, {{"method", method}});
  WriteForecasts(counters, out);
  out.Begin("carma_estimates_total", "counter",
            "Estimates since the daemon started, by method (none: no estimate was possible).");
  for (const auto& [method, count] : counters.estimates) out.Sample(count, {{"method", method}});
  out.One("carma_estimate_seconds", "histogram",
          "Duration of one estimate, including reading and parsing the summary.",
          counters.estimate_seconds);
  out.One("carma_daemon_store_failing", "gauge",
          "1 while the store refuses writes, for example because the disk is full.",
          engine != nullptr && !engine->store_trouble().empty() ? 1 : 0);
  out.One("carma_daemon_closed", "gauge",
          "1 if the server is closed until the next reboot and starts no tasks.",
          engine != nullptr && engine->closing() ? 1 : 0);
  out.One("carma_daemon_config_failing", "gauge",
          "1 if the last configuration reload found an error.",
          configuration.trouble().empty() ? 0 : 1);
  out.One("carma_daemon_config_read_timestamp_seconds", "gauge",
          "Time at which the current configuration was read, in seconds since the epoch.",
          static_cast<double>(base::ToMs(configuration.read_at())) / 1e3);
  out.One("carma_daemon_config_keys_waiting", "gauge",
          "Changed configuration keys that need a restart to take effect.",
          configuration.need_restart().size());
  WriteOwnProcess(out);
  if (engine != nullptr && monitor != nullptr) {
    WriteQueue(*engine, now, out);
    WriteUsers(*engine, out);
    WriteHost(*engine, out);
    WriteGpus(*engine, *monitor, now, out);
  }
  return out.text();
}

std::string LeaseMetricsText(const task::LeaseLauncher& leases) {
  std::map<std::string, int> counts{{"waiting", 0}, {"granted", 0}, {"adopted", 0}};
  for (const core::TaskId id : leases.Leases()) {
    const bool granted = leases.Granted(id);
    ++counts[leases.Adopted(id) ? "adopted" : granted ? "granted" : "waiting"];
  }
  api::MetricsText out;
  out.Begin("carma_leases", "gauge",
            "Leases that have not ended, by state: waiting for GPUs, granted, adopted.");
  for (const auto& [state, count] : counts) out.Sample(count, {{"state", state}});
  return out.text();
}

std::string TaskMetricsText(const std::vector<api::GpuView>& gpus) {
  struct TaskGauge {
    const char* name;
    const char* help;
    std::optional<double> (*read)(const api::GpuTaskView& task);
  };
  constexpr TaskGauge kTaskGauges[] = {
      {"carma_task_memory_used_bytes", "GPU memory in use by the task.",
       [](const api::GpuTaskView& task) -> std::optional<double> {
         return Bytes(task.observed_mib);
       }},
      {"carma_task_memory_promised_bytes", "GPU memory promised to the task.",
       [](const api::GpuTaskView& task) -> std::optional<double> {
         return Bytes(task.promised_mib);
       }},
      {"carma_task_sm_active_ratio", "The task's share of the SM activity; absent if unknown.",
       [](const api::GpuTaskView& task) -> std::optional<double> { return task.sm_active; }},
      {"carma_task_progress_ratio",
       "Fraction of the run completed so far; absent if the task's output does not show it.",
       [](const api::GpuTaskView& task) { return task.progress; }},
  };
  api::MetricsText out;
  for (const TaskGauge& gauge : kTaskGauges) {
    out.Begin(gauge.name, "gauge", gauge.help);
    for (const api::GpuView& gpu : gpus) {
      for (const api::GpuTaskView& task : gpu.tasks) {
        const std::optional<double> value = gauge.read(task);
        if (!value) continue;
        out.Sample(*value, {{"task", std::to_string(task.id)},
                            {"name", task.name},
                            {"user", task.user},
                            {"gpu", std::to_string(gpu.index)},
                            {"uuid", gpu.uuid}});
      }
    }
  }
  return out.text();
}

}  // namespace carma::daemon
