#include "lab/verbs/profile/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace carma::cli {
namespace {

bool Wants(const PlanOptions& options, ProfileMethod method) {
  return std::ranges::find(options.methods, method) != options.methods.end();
}

// The methods that this type allows: MIG for instances, with one process each; streams and MPS for
// whole GPUs.
std::vector<ProfileMethod> MethodsFor(const ProfiledType& type, const PlanOptions& options) {
  std::vector<ProfileMethod> methods;
  for (const auto& [method, word] : kProfileMethodWords) {
    const bool of_instances = method == ProfileMethod::kMig;
    if (Wants(options, method) && of_instances == (type.instances > 0)) methods.push_back(method);
  }
  return methods;
}

class Planner {
 public:
  Planner(std::span<const std::string> workloads, const PlanOptions& options)
      : workloads_(workloads), options_(options) {}

  void Alone(const ProfiledType& type, ProfileMethod method) {
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const std::string& each : workloads_)
        plan_.push_back({method, type.name, {each}, repeat, std::nullopt});
    }
  }

  void Pairs(const ProfiledType& type, ProfileMethod method) {
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (std::size_t i = 0; i < workloads_.size(); ++i) {
        for (std::size_t j = i; j < workloads_.size(); ++j) {
          plan_.push_back(
              {method, type.name, {workloads_[i], workloads_[j]}, repeat, std::nullopt});
        }
      }
    }
  }

  // Adds runs with several copies of each workload: one copy is a solo run, two copies are a pair.
  void Degrees(const ProfiledType& type, ProfileMethod method) {
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const int degree : options_.degrees) {
        if (degree == 1) continue;
        if (degree == 2 && options_.pairs && method != ProfileMethod::kMig) continue;
        if (method == ProfileMethod::kMig && degree > type.instances) continue;
        for (const std::string& each : workloads_) {
          plan_.push_back({method, type.name,
                           std::vector<std::string>(static_cast<std::size_t>(degree), each), repeat,
                           std::nullopt});
        }
      }
    }
  }

  // Each repeat runs without a watcher and then with each watcher, so that runs close in time are
  // compared.
  void Watchers(const ProfiledType& type) {
    if (options_.watchers.empty()) return;
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const std::string& each : workloads_) {
        for (const Watcher watcher : options_.watchers)
          plan_.push_back({ProfileMethod::kStreams, type.name, {each}, repeat, watcher});
      }
    }
  }

  std::vector<PlannedRun> Take() { return std::move(plan_); }

 private:
  std::span<const std::string> workloads_;
  const PlanOptions& options_;
  std::vector<PlannedRun> plan_;
};

}  // namespace

std::string KeyOf(const PlannedRun& run) {
  return fmt::format("{}: {}, run {} on {}{}", base::WordOf(run.method),
                     base::Join(run.members, " + "), run.repeat, run.gpu_type,
                     run.cost_of ? fmt::format(", watched by {}", base::WordOf(*run.cost_of)) : "");
}

std::vector<PlannedRun> PlanOf(std::span<const std::string> workloads,
                               std::span<const ProfiledType> types, const PlanOptions& options) {
  Planner planner(workloads, options);
  for (const ProfiledType& type : types) planner.Alone(type, ProfileMethod::kStreams);
  for (const ProfiledType& type : types) {
    // Even running as the only MPS client has a cost, mostly while loading.
    const bool mps = type.instances == 0 && Wants(options, ProfileMethod::kMps);
    if (mps && (options.pairs || !options.degrees.empty()))
      planner.Alone(type, ProfileMethod::kMps);
    for (const ProfileMethod method : MethodsFor(type, options)) {
      if (options.pairs && method != ProfileMethod::kMig) planner.Pairs(type, method);
    }
    for (const ProfileMethod method : MethodsFor(type, options)) planner.Degrees(type, method);
  }
  for (const ProfiledType& type : types) planner.Watchers(type);
  return planner.Take();
}

std::optional<double> ExpectedS(
    const PlannedRun& run,
    const std::function<std::optional<KnownTime>(const std::string&)>& known) {
  double longest_s = 0, load_s = 0, activity = 0;
  for (const std::string& member : run.members) {
    const std::optional<KnownTime> time = known(member);
    if (!time) return std::nullopt;
    longest_s = std::max(longest_s, time->time_s);
    load_s = std::max(load_s, time->load_s);
    activity += time->sm_active;
  }
  // Without MIG, each neighbour costs more time than its activity suggests.
  constexpr double kEachNeighbour = 0.15;
  const auto others = static_cast<double>(run.members.size() - 1);
  const double slowdown =
      run.method == ProfileMethod::kMig ? 1 : std::max(1.0, activity) + kEachNeighbour * others;
  return load_s + longest_s * slowdown;
}

Result<std::vector<Lane>> LanesOf(std::span<const gpu::DeviceInfo> devices,
                                  std::span<const std::size_t> chosen) {
  std::vector<std::size_t> numbers(chosen.begin(), chosen.end());
  if (chosen.empty()) {
    numbers.resize(devices.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  }
  std::vector<Lane> lanes;
  for (const std::size_t i : numbers) {
    if (i >= devices.size()) return NotFound("no GPU {}", i);
    const gpu::DeviceInfo& info = devices[i];
    if (!info.trouble.empty()) {
      if (chosen.empty()) continue;
      return NotFound("GPU {}: {}", i, info.trouble.text);
    }
    const std::string type = base::Printable(info.name, 100);
    const std::string board = info.mig ? info.mig->parent_uuid : info.uuid;
    const auto same = std::ranges::find_if(lanes, [&](const Lane& lane) {
      return lane.mig && lane.board == board && lane.gpu_type == type;
    });
    if (same == lanes.end()) {
      lanes.push_back({type, board, {i}, {info.uuid}, info.mig.has_value()});
    } else {
      same->devices.push_back(i);
      same->uuids.push_back(info.uuid);
    }
  }
  if (lanes.empty()) return NotFound("there is no GPU to measure");
  return lanes;
}

std::vector<ProfiledType> TypesOf(std::span<const Lane> lanes) {
  std::vector<ProfiledType> types;
  for (const Lane& lane : lanes) {
    const int instances = lane.mig ? static_cast<int>(lane.devices.size()) : 0;
    const auto same = std::ranges::find(types, lane.gpu_type, &ProfiledType::name);
    if (same == types.end()) {
      types.push_back({lane.gpu_type, instances});
    } else {
      same->instances = std::max(same->instances, instances);
    }
  }
  return types;
}

}  // namespace carma::cli
