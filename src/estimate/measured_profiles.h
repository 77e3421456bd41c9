// Profiles that `carma profile` measured (profile/profiles.h), found by the signature of a task.
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

  // Null: not measured on that type.
  const profile::WorkloadProfile* Of(const std::string& signature,
                                     const std::string& gpu_type) const;
  // The first line with this signature on any type; null: never measured.
  const profile::WorkloadProfile* Elsewhere(const std::string& signature) const;
  std::size_t size() const { return profiles_.size(); }

 private:
  std::vector<profile::WorkloadProfile> profiles_;
  std::multimap<std::string, std::size_t> by_signature_;  // equal ones in the order of the lines
};

// Completes what is known of a task from earlier runs with the profile measured for the same
// program. If it was measured on the same type of GPU, its SM activity and fitted parameters are
// used. If it was measured on another type, only its activity is used, and only if earlier runs
// show none. Run times stay those of earlier runs, because what was measured may have been a
// shorter piece of the work.
core::Profile WithMeasured(core::Profile known, const MeasuredProfiles& measured,
                           const std::string& signature, const std::string& gpu_type);

}  // namespace carma::estimate
