// What `carma profile` runs, in which order, and how long that will take. Pure.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"

namespace carma::cli {

// How the processes of a run share a GPU; one alone is kStreams.
enum class ProfileMethod { kStreams, kMps, kMig };
inline constexpr std::pair<ProfileMethod, std::string_view> kProfileMethodWords[] = {
    {ProfileMethod::kStreams, "streams"},
    {ProfileMethod::kMps, "mps"},
    {ProfileMethod::kMig, "mig"}};  // each on an instance of its own

// Who looks at the GPU while something runs. kCarma: this program, as carmad does.
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
  // Workloads by name; several processes of one where it stands several times. Who has ended is
  // started again until all have ended once.
  std::vector<std::string> members;
  int repeat = 1;
  std::optional<Watcher> cost_of;  // a run that shows what this watcher costs
  bool alone() const { return members.size() == 1 && method == ProfileMethod::kStreams; }
  friend bool operator==(const PlannedRun&, const PlannedRun&) = default;
};

// "streams: a + b, run 2 on NVIDIA A100"; two runs are the same if their keys are.
std::string KeyOf(const PlannedRun& run);

// A type of GPU that is at hand.
struct ProfiledType {
  std::string name;
  int instances = 0;  // of one divided GPU that are of this type; 0: whole GPUs
};

struct PlanOptions {
  std::vector<ProfileMethod> methods;
  int repeats = 3;
  bool pairs = true;
  std::vector<int> degrees;       // copies of one workload at once
  std::vector<Watcher> watchers;  // whose cost is measured; empty: nobody's
};

// Everything alone first: the rest is compared with it. Repeats are spread over a part of the plan,
// so that a machine that grows warm counts for all alike.
std::vector<PlannedRun> PlanOf(std::span<const std::string> workloads,
                               std::span<const ProfiledType> types, const PlanOptions& options);

// About how long a run takes, in s: from what its members take alone (load and computing), the
// activity of a GPU being conserved; empty: one of them is not known yet.
struct KnownTime {
  double load_s = 0;
  double time_s = 0;
  double sm_active = 0.5;
};
std::optional<double> ExpectedS(
    const PlannedRun& run,
    const std::function<std::optional<KnownTime>(const std::string&)>& known);

}  // namespace carma::cli

template <>
inline constexpr carma::base::Words<carma::cli::ProfileMethod>
    carma::base::kWordsOf<carma::cli::ProfileMethod> = carma::cli::kProfileMethodWords;
template <>
inline constexpr carma::base::Words<carma::cli::Watcher>
    carma::base::kWordsOf<carma::cli::Watcher> = carma::cli::kWatcherWords;
