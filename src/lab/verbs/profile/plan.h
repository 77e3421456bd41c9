// Pure functions that plan the runs of `carma profile`, with their order and expected duration.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "gpu/probe.h"
#include "profile/profiles.h"

namespace carma::cli {

// How the processes of a run share a GPU. A single process counts as kStreams.
enum class ProfileMethod { kStreams, kMps, kMig };
inline constexpr std::pair<ProfileMethod, std::string_view> kProfileMethodWords[] = {
    {ProfileMethod::kStreams, "streams"},
    {ProfileMethod::kMps, "mps"},
    {ProfileMethod::kMig, "mig"}};  // each process on its own instance

// The program that monitors the GPU during a run. kCarma: this program, which samples as carmad
// does.
enum class Watcher { kNobody, kCarma, kNvidiaSmi, kDcgmi };
inline constexpr std::pair<Watcher, std::string_view> kWatcherWords[] = {
    {Watcher::kNobody, "nobody"},
    {Watcher::kCarma, "carma"},
    {Watcher::kNvidiaSmi, "nvidia-smi"},
    {Watcher::kDcgmi, "dcgmi"}};

inline constexpr int kMostProfileDegree = 16;

struct PlannedRun {
  ProfileMethod method = ProfileMethod::kStreams;
  std::string gpu_type;
  // Names of the workloads; a repeated name means several processes. Members that exit are
  // restarted until every member has finished once.
  std::vector<std::string> members;
  int repeat = 1;
  std::optional<Watcher> cost_of;  // set if the run measures the cost of this watcher
  static void VisitFields(auto& field, auto& self) {
    constexpr std::size_t kMost = kMostProfileDegree;
    field("method", self.method);
    field("gpu_type", self.gpu_type, "", {.max_bytes = profile::kMaxNameBytes});
    field("members", self.members, "", {.max_bytes = profile::kMaxNameBytes, .max_items = kMost});
    field("repeat", self.repeat, "", {.low = 1, .high = 1'000});
    field("cost_of", self.cost_of);
  }
  bool alone() const { return members.size() == 1 && method == ProfileMethod::kStreams; }
  friend bool operator==(const PlannedRun&, const PlannedRun&) = default;
};

// Identifies a run: "streams: a + b, run 2 on NVIDIA A100".
std::string KeyOf(const PlannedRun& run);

// A GPU type to measure workloads on.
struct ProfiledType {
  std::string name;
  int instances = 0;  // number of instances per GPU if the type is an instance; 0: whole GPUs
};

struct PlanOptions {
  std::vector<ProfileMethod> methods;
  int repeats = 3;
  bool pairs = true;
  std::vector<int> degrees;       // how many copies of a workload to run together
  std::vector<Watcher> watchers;  // watchers whose cost should be measured
};

// Returns all runs in order. Solo runs come first, because all others are compared with them.
// Within each part of the plan, repeats are spread out, so all runs are affected equally when the
// machine warms up.
std::vector<PlannedRun> PlanOf(std::span<const std::string> workloads,
                               std::span<const ProfiledType> types, const PlanOptions& options);

// What is known about a workload from its solo runs.
struct KnownTime {
  double load_s = 0;
  double time_s = 0;
  double sm_active = 0.5;
};
// Expected duration of a run in seconds: the longest load time, plus the longest solo computing
// time multiplied by an expected slowdown. Empty if `known` returns nothing for a member.
std::optional<double> ExpectedS(
    const PlannedRun& run,
    const std::function<std::optional<KnownTime>(const std::string&)>& known);

// ---- the GPUs that workloads are measured on ----

// Where a run takes place: a whole GPU, or the instances of one type on a MIG GPU.
struct Lane {
  std::string gpu_type;
  std::string board;                 // UUID of the whole GPU; lanes on the same GPU take turns
  std::vector<std::size_t> devices;  // indexes in the driver's list
  std::vector<std::string> uuids;    // UUIDs of these devices
  bool mig = false;
};
// Groups the GPUs into lanes. chosen: indexes of the GPUs to use; empty means all usable GPUs.
// Returns kNotFound if a chosen GPU does not exist or is unusable, or if no GPU is left.
Result<std::vector<Lane>> LanesOf(std::span<const gpu::DeviceInfo> devices,
                                  std::span<const std::size_t> chosen);
// The distinct GPU types of the lanes, each with the number of instances in its largest lane.
std::vector<ProfiledType> TypesOf(std::span<const Lane> lanes);

}  // namespace carma::cli

template <>
inline constexpr carma::base::Words<carma::cli::ProfileMethod>
    carma::base::kWordsOf<carma::cli::ProfileMethod> = carma::cli::kProfileMethodWords;
template <>
inline constexpr carma::base::Words<carma::cli::Watcher>
    carma::base::kWordsOf<carma::cli::Watcher> = carma::cli::kWatcherWords;
