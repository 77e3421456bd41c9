#include "lab/verbs/profile/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace carma::cli {
namespace {

// The methods that this type allows: MIG, with one process each, for instances; streams and MPS for
// whole GPUs.
std::vector<ProfileMethod> MethodsFor(const ProfiledType& type, const PlanOptions& options) {
  std::vector<ProfileMethod> methods;
  for (const auto& [method, word] : kProfileMethodWords) {
    const bool of_instances = method == ProfileMethod::kMig;
    const bool wanted = std::ranges::find(options.methods, method) != options.methods.end();
    if (wanted && of_instances == (type.instances > 0)) methods.push_back(method);
  }
  return methods;
}

using MemberLists = std::vector<std::vector<std::string>>;

MemberLists PairsOf(std::span<const std::string> workloads) {
  MemberLists pairs;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    for (std::size_t j = i; j < workloads.size(); ++j)
      pairs.push_back({workloads[i], workloads[j]});
  }
  return pairs;
}

// Groups of copies of one workload, for each degree. Degree 1 is skipped because the plan already
// contains the solo runs. Degree 2 is skipped if the plan already contains the pairs.
MemberLists CopiesOf(std::span<const std::string> workloads, const ProfiledType& type,
                     ProfileMethod method, const PlanOptions& options) {
  MemberLists copies;
  for (const int degree : options.degrees) {
    if (degree == 1) continue;
    if (degree == 2 && options.pairs && method != ProfileMethod::kMig) continue;
    if (method == ProfileMethod::kMig && degree > type.instances) continue;
    for (const std::string& each : workloads)
      copies.emplace_back(static_cast<std::size_t>(degree), each);
  }
  return copies;
}

}  // namespace

std::string KeyOf(const PlannedRun& run) {
  return fmt::format("{}: {}, run {} on {}{}", base::WordOf(run.method),
                     base::Join(run.members, " + "), run.repeat, run.gpu_type,
                     run.cost_of ? fmt::format(", watched by {}", base::WordOf(*run.cost_of)) : "");
}

std::vector<PlannedRun> PlanOf(std::span<const std::string> workloads,
                               std::span<const ProfiledType> types, const PlanOptions& options) {
  std::vector<PlannedRun> plan;
  const auto add = [&](const ProfiledType& type, ProfileMethod method, const MemberLists& lists,
                       const std::vector<std::optional<Watcher>>& watchers = {std::nullopt}) {
    for (int repeat = 1; repeat <= options.repeats; ++repeat) {
      for (const std::vector<std::string>& members : lists) {
        for (const std::optional<Watcher> watcher : watchers)
          plan.push_back({method, type.name, members, repeat, watcher});
      }
    }
  };
  MemberLists alone;
  for (const std::string& each : workloads) alone.push_back({each});
  for (const ProfiledType& type : types) add(type, ProfileMethod::kStreams, alone);
  for (const ProfiledType& type : types) {
    const std::vector<ProfileMethod> methods = MethodsFor(type, options);
    // Also measures each workload alone under MPS, because MPS slows down even a single client,
    // mostly while it loads.
    const bool mps = std::ranges::find(methods, ProfileMethod::kMps) != methods.end();
    if (mps && (options.pairs || !options.degrees.empty())) add(type, ProfileMethod::kMps, alone);
    for (const ProfileMethod method : methods) {
      if (options.pairs && method != ProfileMethod::kMig) add(type, method, PairsOf(workloads));
    }
    for (const ProfileMethod method : methods)
      add(type, method, CopiesOf(workloads, type, method, options));
  }
  // Each repeat runs without a watcher and then with each watcher, so that the runs compared are
  // close in time.
  const std::vector<std::optional<Watcher>> watchers(options.watchers.begin(),
                                                     options.watchers.end());
  for (const ProfiledType& type : types) add(type, ProfileMethod::kStreams, alone, watchers);
  return plan;
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
  std::set<std::size_t> numbers(chosen.begin(), chosen.end());  // a GPU named twice counts once
  for (std::size_t i = 0; chosen.empty() && i < devices.size(); ++i) numbers.insert(i);
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
