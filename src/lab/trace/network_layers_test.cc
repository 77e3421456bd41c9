
#include <gtest/gtest.h>

#include "lab/trace/workloads.h"

namespace carma::trace {
namespace {

TEST(LayersOf, RecognisesCommonNetworksInAnySpelling) {
  EXPECT_EQ(LayersOf("resnet50"), 54);
  EXPECT_EQ(LayersOf("EfficientNet-B0"), 82);
  EXPECT_EQ(LayersOf("mobilenet_v2"), 53);
  EXPECT_FALSE(LayersOf("resnet5"));
  EXPECT_FALSE(LayersOf(""));
}

TEST(Catalogue, FindsTheLayersOfANamedModel) {
  const auto catalogue = Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib,batch_size,"
      "model\n"
      "a,1,100,0.5,,,1000,64,VGG-16\n",
      "c.csv");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_EQ((*catalogue->Find("a"))->traits.layers, 16);
}

TEST(Catalogue, FillsInUnmeasuredValues) {
  const auto catalogue = Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib,batch_size,"
      "layers,domain\n"
      "known,1,100,0.5,0.4,0.3,1000,64,,cnn\n"
      "guessed,1,100,0.5,,,1000,64,54,cnn\n"
      "half,1,100,0.5,0.4,,1000,,,transformer\n"
      "nothing,1,100,0.5,,,1000,,,\n",
      "c.csv");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const Workload known = **catalogue->Find("known");
  EXPECT_DOUBLE_EQ(known.mps_pressure, 0.3);
  const Workload guessed = **catalogue->Find("guessed");
  EXPECT_DOUBLE_EQ(guessed.mps_sensitivity,
                   core::GuessMps(0.5, {.batch_size = 64, .layers = 54}).sensitivity);
  const Workload half = **catalogue->Find("half");
  EXPECT_DOUBLE_EQ(half.mps_sensitivity, 0.4);
  EXPECT_DOUBLE_EQ(half.mps_pressure, 0.649 * 0.5);
  EXPECT_FALSE(catalogue->Find("nothing"));
}

}  // namespace
}  // namespace carma::trace
