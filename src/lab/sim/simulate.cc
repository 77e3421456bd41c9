#include "lab/sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "core/scheduler/published_rules.h"
#include "estimate/estimator.h"
#include "lab/sim/reservation_words.h"
#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

using base::Duration;

constexpr Duration kMaxSpan{std::chrono::hours(24 * 366)};
constexpr Duration kCheckedFor = std::chrono::hours(28 * 24);
constexpr std::int64_t kMaxFragmentsMib = 1 << 24;
constexpr double kMaxSoloS = 10.0 * 366 * 86400;
// Each retry takes at least a few seconds of simulated time, so no task of an ordinary run is
// retried this many times.
constexpr int kRetriesWithoutEnd = 10'000;

struct SpanOption {
  std::string_view name;
  Duration value, low;
};

Result<Unit> CheckSpans(const RunOptions& options) {
  const MemoryModel& memory = options.memory;
  for (const SpanOption& each : {
           SpanOption{"monitor period", options.monitor.period, Duration{10}},
           {"monitor window", options.monitor.window, Duration{0}},
           {"monitor delay", options.monitor.delay, Duration{0}},
           {"estimation time", options.estimates.takes, Duration{0}},
           {"load time", memory.load, Duration{0}},
           {"crash delay", memory.crash_delay, Duration{0}},
           {"memory ramp", memory.ramp, Duration{0}},
           {"time between memory spikes", memory.spike_every, Duration{1'000}},
           {"length of memory spikes", memory.spike_lasts, Duration{1}},
           {"time between checkpoints", options.checkpoints.every, Duration{0}},
           {"time to write a checkpoint", options.checkpoints.cost, Duration{0}},
           {"time to stop", options.stopping.takes, Duration{0}},
           {"time slot", options.time_slot, Duration{0}},
           {"time between backfill passes", options.above.backfill_every, Duration{1'000}},
           {"requeue delay", options.above.requeue_delay, Duration{0}},
           {"wait on a server", options.above.wait, Duration{1'000}},
           {"time between reports", options.above.report_every, Duration{1'000}},
       }) {
    if (each.value >= each.low && each.value <= kMaxSpan) continue;
    return Invalid("{}: {} s is not between {} s and a year", each.name, base::Seconds(each.value),
                   base::Seconds(each.low));
  }
  return Unit{};
}

Result<Unit> CheckOptions(const RunOptions& options) {
  CARMA_TRY(core::Validate(options.policy));
  const std::string& method = options.estimates.method;
  if (!method.empty() && estimate::FindEstimator(method) == nullptr)
    return Invalid("unknown estimator '{}'", base::Printable(method, 60));
  if (options.above.placing == Placing::kAsked && options.policy.pacing != core::Pacing::kImmediate)
    return Invalid("cluster=asked cannot be combined with the published rules");
  if (options.host.promised && options.host.cores < 1)
    return Invalid("cpu_cores_promised=true requires cpu_cores to be at least 1");
  CARMA_TRY(CheckSpans(options));
  const MemoryModel& memory = options.memory;
  if (memory.fragmentation_mib > kMaxFragmentsMib) {
    return Invalid("fragmentation: {} MiB is not between 0 and {}", memory.fragmentation_mib,
                   kMaxFragmentsMib);
  }
  if (memory.spike_lasts >= memory.spike_every)
    return Invalid("memory spikes must be shorter than the interval between them");
  // A shorter slice would end before the task has done any work.
  if (options.time_slot > Duration{0} && options.time_slot <= memory.load) {
    return Invalid("time slot: {} s is not longer than the load time of {} s",
                   base::Seconds(options.time_slot), base::Seconds(memory.load));
  }
  if (options.collocation == core::SharingMethod::kMig &&
      FindMigProfile(options.mig_instances) == nullptr) {
    return Invalid("mig_instances: expected 1, 2, 3 or 7, not {}", options.mig_instances);
  }
  return Unit{};
}

// Checks that the reservations are possible on every server.
Result<Unit> CheckBookings(const Cluster& cluster,
                           std::span<const core::Reservation> reservations) {
  if (reservations.empty()) return Unit{};
  const std::vector<core::ReservedPeriod> periods =
      PeriodsOf(reservations, core::Time{}, core::Time{}, core::Time{kCheckedFor});
  for (const ServerShape& server : cluster.servers) {
    for (const core::Reservation& booking : reservations) {
      for (const std::string& gpu : booking.on_gpus) {
        const auto number = base::ParseInt(gpu);
        if (number && std::cmp_greater_equal(*number, server.gpus.size()))
          return Invalid("reserve: there is no GPU {} on a server with {}", gpu,
                         base::Counted(std::ssize(server.gpus), "GPU"));
      }
    }
    std::vector<core::GpuInfo> infos;
    for (const GpuType& type : server.gpus) infos.push_back({.type = type.type});
    if (const auto why = core::WhyNotAll(periods, core::Time{}, infos)) return Invalid(*why);
  }
  return Unit{};
}

Result<Unit> CheckLoad(const Cluster& cluster, std::span<const Arrival> arrivals,
                       const RunOptions& options) {
  const bool divided = options.collocation == core::SharingMethod::kMig;
  if (cluster.servers.empty()) return Invalid("no servers");
  std::size_t most = 0;
  std::size_t most_of_one_kind = 0;
  std::map<std::vector<std::string>, std::size_t> gpus_of_kind;
  for (const ServerShape& server : cluster.servers) {
    if (server.gpus.empty()) return Invalid("a server has no GPUs");
    std::vector<std::string> kind;
    for (const GpuType& type : server.gpus) {
      if (divided && !CanBeDivided(type)) return Invalid("{} does not support MIG", type.type);
      kind.push_back(type.type);
    }
    most = std::max(most, kind.size());
    most_of_one_kind = std::max(most_of_one_kind, gpus_of_kind[kind] += kind.size());
  }
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Arrival& arrival = arrivals[i];
    CARMA_CHECK(arrival.workload != nullptr, "an arrival without a workload");
    const auto wrong = [&](std::string_view what) {
      const std::string place =
          arrival.line > 0 ? fmt::format("line {}", arrival.line) : fmt::format("task {}", i + 1);
      return Invalid("{} ({}): {}", place, base::Printable(arrival.workload->id, 60), what);
    };
    const auto gpus = static_cast<std::size_t>(std::max(arrival.workload->gpus, 0));
    if (gpus < 1 || arrival.workload->memory_mib.size() != gpus ||
        arrival.workload->sm_active.size() != gpus) {
      return wrong("needs at least one GPU, and memory and SM activity for each");
    }
    core::TaskRequest named{.user = arrival.user};
    if (!arrival.qos.empty()) named.qos = arrival.qos;
    if (!arrival.account.empty()) named.account = arrival.account;
    if (const Result<Unit> may = core::MayName(options.policy, named); !may)
      return wrong(may.error().message +
                   "; pass the server's configuration file (--config) or delete this column");
    if (divided && gpus > 1)
      return wrong(fmt::format("needs {} GPUs, but a task can use only one MIG instance", gpus));
    if (gpus > most && options.above.placing == Placing::kQueue)
      return wrong(fmt::format("needs {} GPUs, but the largest server has {}", gpus, most));
    if (gpus > most && gpus > most_of_one_kind) {
      return wrong(fmt::format("needs {} GPUs, but servers of one kind have at most {} in total",
                               gpus, most_of_one_kind));
    }
    const double solo_s = arrival.solo_s.value_or(arrival.workload->solo_s);
    if (!(solo_s >= 0 && solo_s <= kMaxSoloS))
      return wrong(fmt::format("lasts {} s, expected 0 to ten years", solo_s));
    if (arrival.at < Duration{0} || arrival.at > kMaxSpan)
      return wrong("is submitted more than a year after the first task");
    if (i > 0 && arrival.at < arrivals[i - 1].at)
      return wrong("is submitted before the previous task");
  }
  return Unit{};
}

}  // namespace

Result<std::vector<Arrival>> Arrivals(const trace::TaskTrace& trace,
                                      const trace::Catalogue& catalogue, std::string_view path) {
  const std::vector<const trace::Workload*> workloads =
      CARMA_TRY(trace::MatchWorkloads(trace, catalogue, path));
  std::vector<Arrival> arrivals;
  arrivals.reserve(workloads.size());
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const trace::Submission& submission = trace.submissions[i];
    arrivals.push_back({submission.at, workloads[i], submission.solo_s, submission.line,
                        submission.user, submission.cpus, submission.gpu_type, submission.qos,
                        submission.account});
  }
  return arrivals;
}

Result<RunOptions> AsPublished(std::string_view era, RunOptions options) {
  options.policy = CARMA_TRY(core::AsPublished(era, options.policy));
  options.max_recoveries = kRetriesWithoutEnd;
  options.monitor.delay = Duration{0};
  if (options.policy.pacing == core::Pacing::kThesis) {
    // A window's values are published when the next window begins.
    options.monitor.mode = MonitorOptions::Mode::kPeriodic;
    options.monitor.period = Duration{92'000};
    options.monitor.window = Duration{92'000};
  } else {
    options.monitor.mode = MonitorOptions::Mode::kOnDemand;
    options.monitor.period = Duration{1'000};
    options.monitor.window = Duration{30'000};
  }
  return options;
}

Result<Unit> CheckRun(const Cluster& cluster, std::span<const Arrival> arrivals,
                      const RunOptions& options) {
  CARMA_TRY(CheckOptions(options));
  CARMA_TRY(CheckLoad(cluster, arrivals, options));
  return CheckBookings(cluster, options.reservations);
}

Result<RunResult> Simulate(const Cluster& cluster, std::span<const Arrival> arrivals,
                           const RunOptions& options) {
  CARMA_TRY(CheckRun(cluster, arrivals, options));
  return Simulation(cluster, arrivals, options).Run();
}

}  // namespace carma::sim
