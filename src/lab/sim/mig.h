// Multi-Instance GPU: a GPU cut into equal parts that do not disturb each other.
#pragma once

#include <span>

namespace carma::sim {

// The equal partitions of an A100 (NVIDIA's profiles 7g.40gb, 3g.20gb, 2g.10gb, 1g.5gb): of seven
// compute and eight memory slices.
struct MigProfile {
  int instances = 1;
  double compute = 1;  // share of the GPU's SMs, each instance
  double memory = 1;   // share of its memory
};
std::span<const MigProfile> MigProfiles();
// Null: no such partition.
const MigProfile* FindMigProfile(int instances);

// Speed of a task on an instance relative to the whole GPU, with u its SM activity there: min(1,
// compute / u). It meets the published 2 to 2.5 times of seven small tasks (u about 0.3) on seven
// instances.
double MigSpeed(const MigProfile& profile, double sm_active);

}  // namespace carma::sim
