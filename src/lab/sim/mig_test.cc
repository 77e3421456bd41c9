#include "lab/sim/gpu_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace carma::sim {
namespace {

// Step times of training runs from MISO (SoCC 2022) on an A100-40GB, relative to the whole GPU, by
// the instance's number of compute slices.
struct Training {
  const char* name;
  std::vector<std::pair<int, double>> times;
};
const Training kMeasured[] = {
    {"bert, batch 2", {{4, 1.45}, {3, 1.60}, {2, 2.57}}},
    {"bert, batch 8", {{4, 1.74}, {3, 1.93}}},
    {"transformer, batch 64", {{4, 1.73}, {3, 1.92}, {2, 3.32}}},
    {"resnet, batch 64", {{4, 1.05}, {3, 1.00}, {2, 1.12}, {1, 1.73}}},
    {"resnet, batch 512", {{4, 1.34}, {3, 1.53}, {2, 2.39}, {1, 4.47}}},
    {"mobilenet, batch 64", {{4, 1.02}, {3, 1.03}, {2, 1.11}, {1, 1.23}}},
    {"embedding, batch 64", {{4, 1.07}, {3, 1.07}, {2, 1.23}, {1, 1.63}}},
    {"gnn, batch 256", {{4, 1.39}, {3, 1.61}, {2, 2.33}, {1, 4.20}}},
    {"cyclegan, batch 1", {{4, 1.28}, {3, 1.39}, {2, 2.17}, {1, 4.17}}},
};

std::vector<double> ErrorsOf(const Training& training, double sm_active) {
  std::vector<double> errors;
  for (const auto& [slices, time] : training.times)
    errors.push_back(std::abs(std::log(time * MigSpeed(slices / 7.0, sm_active))));
  return errors;
}

double SumOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum;
}

TEST(MigSpeed, AgreesWithMeasuredTrainingsOnInstances) {
  std::vector<double> all;
  for (const Training& training : kMeasured) {
    std::vector<double> best = ErrorsOf(training, 0.05);
    for (double u = 0.05; u <= 1; u += 0.01) {
      std::vector<double> errors = ErrorsOf(training, u);
      if (SumOf(errors) < SumOf(best)) best = std::move(errors);
    }
    EXPECT_LT(std::ranges::max(best), 0.17) << training.name;
    all.insert(all.end(), best.begin(), best.end());
  }
  EXPECT_LT(SumOf(all) / static_cast<double>(all.size()), 0.055);
}

TEST(MigSpeed, AWholeGpuHasFullSpeed) {
  EXPECT_DOUBLE_EQ(MigSpeed(1, 0.9), 1);
  EXPECT_NEAR(1 / MigSpeed(1.0 / 7, 0.3), 2.1, 0.1) << "published: 2 to 2.5 for seven small tasks";
}

}  // namespace
}  // namespace carma::sim
