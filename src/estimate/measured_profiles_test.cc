#include "estimate/measured_profiles.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

using profile::WorkloadProfile;

WorkloadProfile Line(const std::string& signature, const std::string& gpu_type, double sm_active) {
  WorkloadProfile line;
  line.workload = "w" + signature;
  line.signature = signature;
  line.gpu_type = gpu_type;
  line.sm_active = sm_active;
  return line;
}

TEST(MeasuredProfiles, AreFoundBySignatureAndType) {
  const MeasuredProfiles measured({Line("a", "H100", 0.4), Line("a", "A100", 0.6),
                                   Line("a", "A100", 0.9), Line("", "A100", 0.5)});
  EXPECT_EQ(measured.size(), 3u) << "a line without a signature is ignored";
  ASSERT_NE(measured.Of("a", "A100"), nullptr);
  EXPECT_EQ(measured.Of("a", "A100")->sm_active, 0.6) << "the first line";
  EXPECT_EQ(measured.Of("a", "L40S"), nullptr);
  ASSERT_NE(measured.Elsewhere("a"), nullptr);
  EXPECT_EQ(measured.Elsewhere("a")->gpu_type, "H100");
  EXPECT_EQ(measured.Of("", "A100"), nullptr);
  EXPECT_EQ(measured.Elsewhere("b"), nullptr);
}

TEST(WithMeasured, UsesActivityAndParametersOnTheSameType) {
  WorkloadProfile line = Line("a", "A100", 0.4);
  line.time_s = 60;
  const core::Profile seen{.sm_active = 0.5, .alone = base::Duration(900'000)};
  EXPECT_EQ(WithMeasured(seen, MeasuredProfiles({line}), "a", "A100"),
            (core::Profile{.sm_active = 0.4, .alone = base::Duration(900'000)}))
      << "the profile was measured without neighbours";
  line.sensitivity = 1.5;
  line.pressure = 0.25;
  const MeasuredProfiles measured({line});
  EXPECT_EQ(WithMeasured(seen, measured, "a", "A100"),
            (core::Profile{.sm_active = 0.4,
                           .mps = core::MpsParameters{1.5, 0.25},
                           .alone = base::Duration(900'000)}));
  EXPECT_EQ(WithMeasured(seen, measured, "b", "A100"), seen);
}

TEST(WithMeasured, UsesOnlyMissingActivityFromAnotherType) {
  WorkloadProfile line = Line("a", "H100", 0.4);
  line.sensitivity = 1.5;
  line.pressure = 0.25;
  const MeasuredProfiles measured({line});
  EXPECT_EQ(WithMeasured({}, measured, "a", "A100"), core::Profile{.sm_active = 0.4});
  EXPECT_EQ(WithMeasured({.sm_active = 0.7}, measured, "a", "A100"),
            core::Profile{.sm_active = 0.7});
  line.sm_active.reset();
  line.gpu_type = "A100";
  EXPECT_EQ(WithMeasured({.sm_active = 0.7}, MeasuredProfiles({line}), "a", "A100").sm_active, 0.7)
      << "its GPU reported no activity";
}

}  // namespace
}  // namespace carma::estimate
