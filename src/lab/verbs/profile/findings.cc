#include "lab/verbs/profile/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "lab/verbs/profile/fit.h"

namespace carma::cli {
namespace {

// A process counts only if it ran alongside other processes for at least this share of its time.
constexpr double kLeastOverlap = 0.2;
constexpr double kLeastSlowdown = 0.25, kMostSlowdown = 1e3;

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Element n of the result is the time within `own` during which n other processes computed at the
// same time.
std::vector<double> TimeBeside(const Interval& own, std::span<const Interval> others) {
  std::vector<std::pair<double, int>> steps;
  for (const Interval& each : others) {
    const double from_s = std::max(own.from_s, each.from_s), to_s = std::min(own.to_s, each.to_s);
    if (from_s >= to_s) continue;
    steps.emplace_back(from_s, 1);
    steps.emplace_back(to_s, -1);
  }
  std::ranges::sort(steps);
  std::vector<double> beside(others.size() + 1, 0);
  double at_s = own.from_s;
  std::size_t count = 0;
  for (const auto& [when_s, change] : steps) {
    beside[count] += when_s - at_s;
    at_s = when_s;
    count = change > 0 ? count + 1 : count - 1;
  }
  beside[count] += own.to_s - at_s;
  return beside;
}

// Results of a workload's solo runs on one GPU type.
struct AloneValues {
  std::vector<double> loads, unloads, times, activities;
  std::optional<std::int64_t> memory_mib;
};

// method: kStreams, or kMps for the only client of a server.
AloneValues AloneOf(const ProfiledWorkload& workload, const std::string& gpu_type,
                    ProfileMethod method, std::span<const MeasuredRun> runs) {
  AloneValues values;
  for (const MeasuredRun& run : runs) {
    if (run.run.members.size() != 1 || run.run.method != method || run.run.cost_of ||
        !run.failed.empty() || run.instances.empty()) {
      continue;
    }
    if (run.run.gpu_type != gpu_type || run.run.members[0] != workload.name) continue;
    const RunInstance& only = run.instances.front();
    values.loads.push_back(workload.load_s.value_or(run.load_s.value_or(0)));
    values.unloads.push_back(run.unload_s.value_or(0));
    values.times.push_back(only.end_s - only.begin_s - values.loads.back() - values.unloads.back());
    if (run.sm_active) values.activities.push_back(*run.sm_active);
    if (run.memory_mib)
      values.memory_mib = std::max(values.memory_mib.value_or(0), *run.memory_mib);
  }
  return values;
}

// The method, the workloads that ran together, and the workload that was slowed down.
using Key = std::tuple<ProfileMethod, std::vector<std::string>, std::string>;

// Evaluates all runs on one GPU type.
class TypeWork {
 public:
  TypeWork(std::string type, std::span<const ProfiledWorkload> workloads,
           std::span<const MeasuredRun> runs) {
    findings_.gpu_type = std::move(type);
    for (const MeasuredRun& run : runs) {
      const bool tells = run.failed.empty() && !run.instances.empty();
      if (tells && run.run.gpu_type == findings_.gpu_type) runs_.push_back(&run);
    }
    for (const ProfiledWorkload& each : workloads) Alone(each, runs);
  }

  TypeFindings Run() {
    CollectMeetings();
    FitAll();
    Watching();
    return std::move(findings_);
  }

 private:
  const profile::WorkloadProfile* ProfileOf(const std::string& name) const {
    const auto found =
        std::ranges::find(findings_.profiles, name, &profile::WorkloadProfile::workload);
    return found == findings_.profiles.end() ? nullptr : &*found;
  }

  void Alone(const ProfiledWorkload& workload, std::span<const MeasuredRun> runs) {
    const AloneValues values = AloneOf(workload, findings_.gpu_type, ProfileMethod::kStreams, runs);
    if (values.times.empty() || Median(values.times) <= 0) return;
    const report::Estimated times = report::EstimatedOf(values.times);
    profile::WorkloadProfile found{.workload = workload.name,
                                   .gpu_type = findings_.gpu_type,
                                   .load_s = Median(values.loads),
                                   .time_s = Median(values.times),
                                   .iterations = workload.iterations,
                                   .memory_mib = values.memory_mib,
                                   .runs = static_cast<int>(times.runs),
                                   .time_spread = times.sd / times.mean};
    if (!values.activities.empty()) found.sm_active = Median(values.activities);
    // An MPS client initialises its GPU differently, so its load time differs.
    const AloneValues client = AloneOf(workload, findings_.gpu_type, ProfileMethod::kMps, runs);
    for (const auto& [method, word] : kProfileMethodWords) {
      const bool told = method == ProfileMethod::kMps && !client.times.empty();
      const AloneValues& of = told ? client : values;
      ends_[{workload.name, method}] = {Median(of.loads), Median(of.unloads)};
    }
    findings_.profiles.push_back(std::move(found));
  }

  void CollectMeetings() {
    for (const MeasuredRun* run : runs_) {
      if (run->run.cost_of || run->run.alone()) continue;
      for (const RunInstance& each : run->instances) {
        if (!each.stopped && each.code == 0) Collect(*run, each);
      }
    }
    for (const auto& [key, values] : seen_) {
      const auto& [method, members, workload] = key;
      findings_.meetings.push_back(
          {method, members, workload, report::EstimatedOf(values), Median(values), {}});
    }
    std::ranges::stable_sort(findings_.meetings, {}, [](const Meeting& each) {
      return std::pair(each.method, each.members.size());
    });
  }

  void Collect(const MeasuredRun& run, const RunInstance& own) {
    const auto computing = [&](const RunInstance& each) -> std::optional<Interval> {
      const auto* found = ProfileOf(run.run.members[static_cast<std::size_t>(each.member)]);
      if (!found) return std::nullopt;
      const auto& [load_s, unload_s] = ends_.at({found->workload, run.run.method});
      // If `carma profile` stopped the process, it was computing until then.
      const Interval interval{each.begin_s + load_s, each.end_s - (each.stopped ? 0 : unload_s)};
      return interval.from_s < interval.to_s ? std::optional(interval) : std::nullopt;
    };
    const std::string& name = run.run.members[static_cast<std::size_t>(own.member)];
    const std::optional<Interval> interval = computing(own);
    if (!interval) return;
    const double time_s = ProfileOf(name)->time_s;
    const bool shares = run.run.members.size() > 1;
    std::vector<Interval> others;
    for (const RunInstance& each : run.instances) {
      const std::optional<Interval> other = computing(each);
      if (each.member != own.member && other) others.push_back(*other);
    }
    const std::optional<double> slowdown =
        shares ? SlowdownOf(time_s, *interval, others, run.run.members.size() - 1)
               : (interval->to_s - interval->from_s) / time_s;
    if (slowdown) seen_[{run.run.method, run.run.members, name}].push_back(*slowdown);
  }

  // Converts a Meeting to the input of the slowdown fits, which identify workloads by their index
  // in findings_.profiles.
  std::optional<SeenSlowdown> Numbered(const Meeting& meeting) const {
    // Uses the median, so one run on a busy host does not change the parameters.
    SeenSlowdown seen{.slowdown = meeting.median_slowdown};
    for (const std::string& member : meeting.members) {
      const auto* found = ProfileOf(member);
      if (!found) return std::nullopt;
      seen.members.push_back(static_cast<std::size_t>(found - findings_.profiles.data()));
    }
    seen.who = static_cast<std::size_t>(std::ranges::find(meeting.members, meeting.workload) -
                                        meeting.members.begin());
    return seen;
  }

  // The parameters are fitted to pairs and tested on larger groups.
  std::vector<SeenSlowdown> Pairs(ProfileMethod method) const {
    std::vector<SeenSlowdown> pairs;
    for (const Meeting& each : findings_.meetings) {
      if (each.method != method || each.members.size() != 2) continue;
      if (auto seen = Numbered(each)) pairs.push_back(std::move(*seen));
    }
    return pairs;
  }

  void FitAll() {
    std::vector<double> u;
    for (const auto& each : findings_.profiles) u.push_back(each.sm_active.value_or(0));
    const std::vector<SeenSlowdown> mps = Pairs(ProfileMethod::kMps);
    const std::vector<SeenSlowdown> streams = Pairs(ProfileMethod::kStreams);
    if (!mps.empty()) TakeMps(u, FitMps(u, mps), mps);
    const bool active = std::ranges::any_of(u, [](double each) { return each > 0; });
    if (!streams.empty() && active) {
      const StreamsFit fit = FitStreams(u, streams);
      findings_.streams_a = fit.a;
      findings_.streams_error = fit.error;
      for (Meeting& each : findings_.meetings) {
        if (each.method != ProfileMethod::kStreams) continue;
        if (const auto seen = Numbered(each)) each.predicted = PredictStreams(u, fit.a, *seen);
      }
    }
  }

  void TakeMps(const std::vector<double>& u, const MpsFit& fit,
               const std::vector<SeenSlowdown>& pairs) {
    findings_.mps_error = fit.error;
    std::set<std::size_t> met;
    for (const SeenSlowdown& pair : pairs) met.insert(pair.members.begin(), pair.members.end());
    for (const std::size_t i : met) {
      profile::WorkloadProfile& found = findings_.profiles[i];
      found.sensitivity = fit.sensitivity[i];
      found.pressure = fit.pressure[i];
      found.fit_error = fit.errors[i];
    }
    for (Meeting& each : findings_.meetings) {
      if (each.method != ProfileMethod::kMps) continue;
      const auto seen = Numbered(each);
      if (!seen) continue;
      if (each.members.size() == 2)
        findings_.profiles[seen->members[seen->who]].meetings +=
            static_cast<int>(each.slowdown.runs);
      const bool known = std::ranges::all_of(
          seen->members, [&](std::size_t member) { return met.contains(member); });
      if (known) each.predicted = PredictMps(u, fit, *seen);
    }
  }

  // Each run with a watcher is compared with the unwatched run of the same repeat, which is close
  // in time.
  void Watching() {
    std::map<std::pair<std::string, int>, double> alone_s;
    const auto length = [](const MeasuredRun& run) {
      return run.instances.front().end_s - run.instances.front().begin_s;
    };
    for (const MeasuredRun* run : runs_) {
      if (run->run.cost_of == Watcher::kNobody)
        alone_s[{run->run.members[0], run->run.repeat}] = length(*run);
    }
    std::map<std::pair<std::string, Watcher>, std::vector<double>> shares;
    for (const MeasuredRun* run : runs_) {
      if (!run->run.cost_of || *run->run.cost_of == Watcher::kNobody) continue;
      const auto base = alone_s.find({run->run.members[0], run->run.repeat});
      if (base == alone_s.end() || base->second <= 0) continue;
      shares[{run->run.members[0], *run->run.cost_of}].push_back(length(*run) / base->second - 1);
    }
    for (const auto& [of, values] : shares)
      findings_.watching.push_back({of.first, of.second, report::EstimatedOf(values)});
  }

  std::vector<const MeasuredRun*> runs_;
  TypeFindings findings_;
  // Load and unload times in seconds, by workload and method.
  std::map<std::pair<std::string, ProfileMethod>, std::pair<double, double>> ends_;
  std::map<Key, std::vector<double>> seen_;  // slowdowns
};

}  // namespace

std::vector<TypeFindings> FindingsOf(std::span<const ProfiledWorkload> workloads,
                                     std::span<const MeasuredRun> runs) {
  std::vector<TypeFindings> findings;
  std::set<std::string> seen;
  for (const MeasuredRun& run : runs) {
    if (!seen.insert(run.run.gpu_type).second) continue;
    TypeFindings of = TypeWork(run.run.gpu_type, workloads, runs).Run();
    if (!of.profiles.empty()) findings.push_back(std::move(of));
  }
  return findings;
}

std::optional<KnownTime> KnownTimeOf(const ProfiledWorkload& workload, const std::string& gpu_type,
                                     std::span<const MeasuredRun> runs) {
  const AloneValues values = AloneOf(workload, gpu_type, ProfileMethod::kStreams, runs);
  if (values.times.empty()) return std::nullopt;
  KnownTime known{.load_s = Median(values.loads), .time_s = Median(values.times)};
  if (!values.activities.empty()) known.sm_active = Median(values.activities);
  return known;
}

std::optional<double> SlowdownOf(double time_s, const Interval& own,
                                 std::span<const Interval> others, std::size_t neighbours) {
  const std::vector<double> beside = TimeBeside(own, others);
  const double length_s = own.to_s - own.from_s;
  if (length_s <= 0 || length_s - beside[0] < kLeastOverlap * length_s) return std::nullopt;
  const auto done_s = [&](double slowdown) {
    double sum_s = 0;
    for (std::size_t n = 0; n < beside.size(); ++n) {
      const double part = std::min(1.0, static_cast<double>(n) / static_cast<double>(neighbours));
      sum_s += beside[n] / (1 + (slowdown - 1) * part);
    }
    return sum_s;
  };
  // Bisects for the slowdown at which the predicted work equals the work done; a higher slowdown
  // means less work.
  double low = kLeastSlowdown, high = kMostSlowdown;
  if (done_s(low) < time_s || done_s(high) > time_s) return std::nullopt;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (done_s(middle) > time_s ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

}  // namespace carma::cli
