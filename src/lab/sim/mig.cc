#include "lab/sim/mig.h"

#include <array>

namespace carma::sim {
namespace {

constexpr std::array kProfiles{
    MigProfile{1, 1.0, 1.0},
    MigProfile{2, 3.0 / 7, 4.0 / 8},
    MigProfile{3, 2.0 / 7, 2.0 / 8},
    MigProfile{7, 1.0 / 7, 1.0 / 8},
};

}  // namespace

std::span<const MigProfile> MigProfiles() {
  return kProfiles;
}

const MigProfile* FindMigProfile(int instances) {
  for (const MigProfile& profile : kProfiles) {
    if (profile.instances == instances) return &profile;
  }
  return nullptr;
}

double MigSpeed(const MigProfile& profile, double sm_active) {
  return sm_active <= profile.compute ? 1.0 : profile.compute / sm_active;
}

}  // namespace carma::sim
