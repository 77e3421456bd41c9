// Multi-Instance GPU: a GPU divided into equal, independent parts.
#pragma once

namespace carma::sim {

// The equal partitions of an A100 (NVIDIA's profiles 7g.40gb, 3g.20gb, 2g.10gb, 1g.5gb): of seven
// compute and eight memory slices.
struct MigProfile {
  int instances = 1;
  double compute = 1;  // share of the GPU's SMs, each instance
  double memory = 1;   // share of its memory
};
// Null: no such partition.
const MigProfile* FindMigProfile(int instances);

// Speed of a task on an instance with that share of the SMs relative to the whole GPU, with u its
// SM activity there: ((1 + u^4) / (1 + (u / compute)^4))^(1/4), so about min(1, compute / u) with a
// round knee. Against MISO's medians of nine trainings on four sizes of instances, u fitted to each
// training: 4.9 % mean error and 16 % at most, where min(1, compute / u) has 6.3 % and 21 %.
double MigSpeed(double compute, double sm_active);

}  // namespace carma::sim
