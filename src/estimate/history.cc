#include "estimate/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "estimate/amounts.h"
#include "estimate/estimator.h"

namespace carma::estimate {
namespace {

constexpr double kLaterRunWeighs = 0.70710678;  // weight of a run relative to the next newer one
constexpr double kPointShare = 0.75;
constexpr double kStillCounts = 0.05;
constexpr double kLoneAllowance = 0.10, kLeastAllowance = 0.03;

// Rounds up, but ignores floating-point errors, so 3000 x 1.1 is 3300.
std::int64_t Scaled(std::int64_t mib, double factor) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(mib) * factor - 1e-6));
}

// The peaks of runs that had enough memory, newest first. too_little_mib: the largest amount of
// memory that proved too small in a run newer than these peaks.
struct Peaks {
  std::vector<std::int64_t> mib;
  std::optional<std::int64_t> too_little_mib;
};

Peaks PeaksOf(std::span<const task::Observation> runs, const std::string& gpu_type) {
  const bool own_type =
      std::ranges::any_of(runs, [&](const auto& each) { return each.gpu_type == gpu_type; });
  Peaks peaks;
  for (const task::Observation& each : runs) {
    if (own_type && each.gpu_type != gpu_type) continue;
    if (!each.ran_out) {
      peaks.mib.push_back(each.measured_mib);
    } else if (peaks.mib.empty()) {
      peaks.too_little_mib = std::max(peaks.too_little_mib.value_or(0), each.measured_mib);
    }
  }
  return peaks;
}

// A weighted quantile: the lowest value such that the peaks up to it have `share` of the total
// weight. Older peaks have less weight.
std::int64_t WeightedQuantile(const std::vector<std::int64_t>& newest_first, double share) {
  std::vector<std::pair<std::int64_t, double>> weighted;
  double weight = 1, total = 0;
  for (const std::int64_t mib : newest_first) {
    weighted.emplace_back(mib, weight);
    total += weight;
    weight *= kLaterRunWeighs;
  }
  std::ranges::sort(weighted);
  double below = 0;
  for (const auto& [mib, each] : weighted) {
    below += each;
    if (below >= share * total) return mib;
  }
  return weighted.back().first;
}

std::int64_t HighestThatCounts(const std::vector<std::int64_t>& newest_first) {
  std::int64_t highest = 0;
  double weight = 1;
  for (const std::int64_t mib : newest_first) {
    if (weight < kStillCounts) break;
    highest = std::max(highest, mib);
    weight *= kLaterRunWeighs;
  }
  return highest;
}

class FromHistory : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (question.history == nullptr) return NotFound("there is no history of earlier runs");
    if (question.signature.empty())
      return NotFound("there is no command to look up in the history");
    const std::vector<task::Observation> runs = question.history->OfSignature(question.signature);
    if (runs.empty()) return NotFound("this training job has not run on this server before");
    Recollection recollection = Recollect(runs, question.gpu_type);
    Answer answer;
    answer.point_mib = recollection.point_mib;
    answer.bound_mib = recollection.bound_mib;
    answer.method = "history";
    answer.terms.push_back({"measured in " + base::Counted(recollection.runs, "earlier run"),
                            static_cast<double>(recollection.point_mib)});
    answer.warnings = std::move(recollection.remarks);
    return answer;
  }
};

}  // namespace

Recollection Recollect(std::span<const task::Observation> runs, const std::string& gpu_type) {
  const Peaks peaks = PeaksOf(runs, gpu_type);
  Recollection answer;
  answer.runs = peaks.mib.size();
  if (!peaks.mib.empty()) {
    const double allowance =
        std::max(kLeastAllowance, kLoneAllowance / static_cast<double>(peaks.mib.size()));
    answer.point_mib = WeightedQuantile(peaks.mib, kPointShare);
    answer.bound_mib = Scaled(HighestThatCounts(peaks.mib), 1 + allowance);
  }
  if (peaks.too_little_mib) {
    const std::int64_t more_mib = Scaled(*peaks.too_little_mib, kMoreThanRanOut);
    answer.point_mib = std::max(answer.point_mib, more_mib);
    answer.bound_mib = std::max(answer.bound_mib, Scaled(more_mib, kMoreThanRanOut));
    answer.remarks.push_back(
        fmt::format("the last run ran out of memory with {} MiB, so the task needs more",
                    *peaks.too_little_mib));
  }
  if (!gpu_type.empty() && runs.front().gpu_type != gpu_type && answer.runs > 0 &&
      std::ranges::none_of(runs, [&](const auto& each) { return each.gpu_type == gpu_type; })) {
    answer.remarks.push_back(
        fmt::format("measurements from {} were applied to {}", runs.front().gpu_type, gpu_type));
  }
  return answer;
}

core::Profile ProfileFrom(std::span<const task::Observation> runs, const std::string& gpu_type,
                          const Paces& paces) {
  constexpr std::size_t kMostDurations = 5;
  core::Profile profile;
  std::optional<double> elsewhere;
  std::vector<core::Duration> alone;
  for (const task::Observation& run : runs) {
    std::optional<double>& activity = run.gpu_type == gpu_type ? profile.sm_active : elsewhere;
    if (!activity) activity = run.sm_active;
    if (!profile.cpus) profile.cpus = run.cpus;
    // An out-of-memory run does not show how much each of its GPUs needs, so every GPU is assumed
    // to need as much as the fullest one.
    if (const std::optional<double> share = run.ran_out ? 1 : run.others_share)
      profile.others_share = std::max(profile.others_share.value_or(0), *share);
    const auto known = paces.find(run.gpu_type);
    const bool here = known != paces.end() || run.gpu_type == gpu_type;
    if (!run.alone || !here || alone.size() == kMostDurations) continue;
    const double pace = known != paces.end() ? known->second : 1;
    alone.emplace_back(std::llround(static_cast<double>(run.alone->count()) * pace));
  }
  if (!profile.sm_active) profile.sm_active = elsewhere;
  if (!alone.empty()) {
    std::ranges::sort(alone);
    profile.alone = alone[alone.size() / 2];
  }
  return profile;
}

void History::Add(task::Observation observation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = next_key_++;
  std::set<std::uint64_t>& alike = by_signature_[observation.signature];
  alike.insert(key);
  by_kin_[observation.kin].insert(key);
  if (observation.formula) {
    with_formula_.insert(key);
    if (!observation.ran_out) newest_[{observation.gpu_type, observation.signature}] = key;
  }
  runs_.emplace(key, std::move(observation));
  if (alike.size() > task::kRunsPerSignature) Drop(*alike.begin());
  if (runs_.size() > task::kMaxObservations) Drop(runs_.begin()->first);
  sites_.clear();
}

void History::Drop(std::uint64_t key) {
  const auto run = runs_.find(key);
  for (auto& [runs, name] :
       {std::pair(&by_signature_, &run->second.signature), std::pair(&by_kin_, &run->second.kin)}) {
    const auto entry = runs->find(*name);
    entry->second.erase(key);
    if (entry->second.empty()) runs->erase(entry);
  }
  with_formula_.erase(key);
  // The oldest run of a signature is always dropped first, so if this run is the newest, it is the
  // only one left.
  const auto newest = newest_.find({run->second.gpu_type, run->second.signature});
  if (newest != newest_.end() && newest->second == key) newest_.erase(newest);
  runs_.erase(run);
}

void History::ForgetCalibration() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, run] : runs_) run.formula.reset();
  with_formula_.clear();
  newest_.clear();
  sites_.clear();
}

std::vector<task::Observation> History::Newest(const Runs& runs, const std::string& key) const {
  const std::lock_guard lock(mutex_);
  std::vector<task::Observation> found;
  const auto entry = runs.find(key);
  if (entry == runs.end()) return found;
  for (auto at = entry->second.rbegin();
       at != entry->second.rend() && found.size() < task::kRunsPerSignature; ++at) {
    found.push_back(runs_.at(*at));
  }
  return found;
}

std::vector<task::Observation> History::OfSignature(const std::string& signature) const {
  return Newest(by_signature_, signature);
}

std::vector<task::Observation> History::OfKin(const std::string& kin) const {
  return Newest(by_kin_, kin);
}

// For each GPU type and signature, the newest run that had enough memory. Only the newest
// kCalibrationRuns runs with a formula result are considered.
std::vector<task::Observation> History::Taught() const {
  std::uint64_t oldest = 0;
  if (with_formula_.size() > kCalibrationRuns)
    oldest = *std::prev(with_formula_.end(), static_cast<std::ptrdiff_t>(kCalibrationRuns));
  std::vector<task::Observation> taught;
  for (const auto& [alike, key] : newest_) {
    if (key >= oldest) taught.push_back(runs_.at(key));
  }
  return taught;
}

Site History::SiteFor(const std::string& gpu_type) const {
  const std::lock_guard lock(mutex_);
  if (sites_.empty()) {
    const std::vector<task::Observation> taught = Taught();
    sites_[""] = Calibrate(taught, "");
    for (const task::Observation& run : taught) {
      if (!sites_.contains(run.gpu_type)) sites_[run.gpu_type] = Calibrate(taught, run.gpu_type);
    }
  }
  const auto known = sites_.find(gpu_type);
  Site site = known != sites_.end() ? known->second : sites_.at("");
  site.gpu_type = gpu_type;
  return site;
}

std::vector<task::Observation> History::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<task::Observation> all;
  all.reserve(runs_.size());
  for (const auto& [key, run] : runs_) all.push_back(run);
  return all;
}

std::unique_ptr<Estimator> MakeFromHistory() {
  return std::make_unique<FromHistory>();
}

}  // namespace carma::estimate
