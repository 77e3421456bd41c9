#include "estimate/measured_profiles.h"

#include <utility>

namespace carma::estimate {

using profile::WorkloadProfile;

MeasuredProfiles::MeasuredProfiles(std::vector<WorkloadProfile> profiles) {
  for (WorkloadProfile& each : profiles) {
    if (each.signature.empty()) continue;
    by_signature_.emplace(each.signature, profiles_.size());
    profiles_.push_back(std::move(each));
  }
}

const WorkloadProfile* MeasuredProfiles::Of(const std::string& signature,
                                            const std::string& gpu_type) const {
  const auto [first, last] = by_signature_.equal_range(signature);
  for (auto each = first; each != last; ++each) {
    const WorkloadProfile& found = profiles_[each->second];
    if (found.gpu_type == gpu_type) return &found;
  }
  return nullptr;
}

const WorkloadProfile* MeasuredProfiles::Elsewhere(const std::string& signature) const {
  const auto found = by_signature_.find(signature);
  return found == by_signature_.end() ? nullptr : &profiles_[found->second];
}

core::Profile WithMeasured(core::Profile known, const MeasuredProfiles& measured,
                           const std::string& signature, const std::string& gpu_type) {
  if (const WorkloadProfile* here = measured.Of(signature, gpu_type)) {
    if (here->sm_active) known.sm_active = here->sm_active;
    if (here->sensitivity) known.mps = core::MpsParameters{*here->sensitivity, *here->pressure};
  } else if (const WorkloadProfile* elsewhere = measured.Elsewhere(signature)) {
    if (!known.sm_active) known.sm_active = elsewhere->sm_active;
  }
  return known;
}

}  // namespace carma::estimate
