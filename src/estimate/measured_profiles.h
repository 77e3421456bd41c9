// Looks up, by task signature, the profiles that `carma profile` has measured (profile/profiles.h).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/values/profile.h"
#include "profile/profiles.h"

namespace carma::estimate {

// Immutable, so safe to use from several threads.
class MeasuredProfiles {
 public:
  MeasuredProfiles() = default;
  // Lines without a signature are ignored. If several workloads have the same signature and GPU
  // type, the first line is used.
  explicit MeasuredProfiles(std::vector<profile::WorkloadProfile> profiles);

  // The profile with this signature and GPU type. Null if there is none.
  const profile::WorkloadProfile* Of(const std::string& signature,
                                     const std::string& gpu_type) const;
  // The profile from the first line with this signature, regardless of GPU type. Null if there is
  // none.
  const profile::WorkloadProfile* Elsewhere(const std::string& signature) const;
  std::size_t size() const { return profiles_.size(); }

 private:
  std::vector<profile::WorkloadProfile> profiles_;
  std::multimap<std::string, std::size_t> by_signature_;  // equal signatures are in line order
};

// Adds the profile measured for the same program to the values from earlier runs. A profile from
// the same GPU type contributes its SM activity and fitted parameters. A profile from another type
// contributes only its activity, and only if no earlier run reported an activity. Run times always
// come from earlier runs, because the measurement may have covered only part of the work.
core::Profile WithMeasured(core::Profile known, const MeasuredProfiles& measured,
                           const std::string& signature, const std::string& gpu_type);

}  // namespace carma::estimate
