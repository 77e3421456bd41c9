#include "lab/sim/mig.h"

#include <array>
#include <cmath>

namespace carma::sim {
namespace {

constexpr std::array kProfiles{
    MigProfile{1, 1.0, 1.0},
    MigProfile{2, 3.0 / 7, 4.0 / 8},
    MigProfile{3, 2.0 / 7, 2.0 / 8},
    MigProfile{7, 1.0 / 7, 1.0 / 8},
};

}  // namespace

const MigProfile* FindMigProfile(int instances) {
  for (const MigProfile& profile : kProfiles) {
    if (profile.instances == instances) return &profile;
  }
  return nullptr;
}

double MigSpeed(double compute, double sm_active) {
  constexpr double kKnee = 4;
  if (compute >= 1) return 1;
  return std::pow((1 + std::pow(sm_active, kKnee)) / (1 + std::pow(sm_active / compute, kKnee)),
                  1 / kKnee);
}

}  // namespace carma::sim
