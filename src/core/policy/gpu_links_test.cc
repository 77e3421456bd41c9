#include "core/policy/gpu_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carma::core {
namespace {

using ::testing::IsEmpty;

std::vector<GpuIndex> Gpus(std::initializer_list<std::uint32_t> numbers) {
  std::vector<GpuIndex> gpus;
  for (const std::uint32_t each : numbers) gpus.push_back(GpuIndex{each});
  return gpus;
}

// Six GPUs. GPUs 0 and 2 are connected, and so are GPUs 1 and 3. GPUs 4 and 5 have no connection.
GpuLinks Pairs() {
  std::vector<GpuInfo> gpus(6);
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].uuid = "GPU-" + std::to_string(i);
  gpus[0].linked_to = {"GPU-2"};
  gpus[1].linked_to = {"GPU-3", "GPU-elsewhere"};
  gpus[3].linked_to = {"GPU-1"};
  return GpuLinks(gpus);
}

std::vector<GpuLinks::Candidate> Of(std::initializer_list<double> scores) {
  std::vector<GpuLinks::Candidate> candidates;
  for (const double score : scores)
    candidates.push_back({GpuIndex{static_cast<std::uint32_t>(candidates.size())}, score});
  return candidates;
}

TEST(GpuLinks, OneReportingGpuIsEnoughForALink) {
  const GpuLinks links = Pairs();
  EXPECT_TRUE(links.any());
  EXPECT_TRUE(links.Between(GpuIndex{0}, GpuIndex{2}));
  EXPECT_TRUE(links.Between(GpuIndex{2}, GpuIndex{0}));
  EXPECT_FALSE(links.Between(GpuIndex{0}, GpuIndex{1}));
  EXPECT_FALSE(links.Between(GpuIndex{0}, GpuIndex{0}));
  EXPECT_FALSE(links.Between(GpuIndex{9}, GpuIndex{0}));
  EXPECT_FALSE(GpuLinks().any());
}

TEST(GpuLinks, PrefersConnectedGpusAmongEqualScores) {
  const GpuLinks links = Pairs();
  EXPECT_EQ(links.Best(Of({1, 1, 1, 1}), 2), Gpus({0, 2}));
  EXPECT_EQ(links.Best(Of({1, 3, 2, 2}), 2), Gpus({1, 3})) << "links decide among equal scores";
  EXPECT_EQ(links.Best(Of({4, 3, 2, 2}), 2), Gpus({0, 1})) << "scores take precedence over links";
  EXPECT_EQ(GpuLinks().Best(Of({1, 1, 2, 1}), 3), Gpus({2, 0, 1}));
  EXPECT_THAT(links.Best(Of({1}), 2), IsEmpty());
}

TEST(GpuLinks, TakesTheBestSetThatIsFullyConnected) {
  const GpuLinks links = Pairs();
  EXPECT_EQ(links.BestLinked(Of({4, 3, 1, 2}), 2), Gpus({0, 2}));
  EXPECT_EQ(links.BestLinked(Of({4, 5, 1, 2}), 2), Gpus({1, 3}));
  EXPECT_THAT(links.BestLinked(Of({1, 1, 1, 1, 1, 1}), 3), IsEmpty());
  EXPECT_EQ(links.BestLinked(Of({1, 2}), 1), Gpus({1}));
}

TEST(GpuLinks, PutsAPossibleFirstGpuFirst) {
  std::vector<GpuLinks::Candidate> candidates = Of({4, 3, 2, 1});
  for (const std::size_t each : {0, 1, 3}) candidates[each].may_be_first = false;
  EXPECT_EQ(GpuLinks().Best(candidates, 3), Gpus({2, 0, 1}));
  EXPECT_EQ(GpuLinks().Best(candidates, 2), Gpus({2, 0}));
  EXPECT_EQ(Pairs().Best(candidates, 1), Gpus({2}));
  candidates[1].may_be_first = true;
  EXPECT_EQ(GpuLinks().Best(candidates, 2), Gpus({1, 0}));
  candidates[2].may_be_first = false;
  EXPECT_EQ(Pairs().BestLinked(candidates, 2), Gpus({1, 3})) << "neither 0 nor 2 may be the first";
  candidates[1].may_be_first = false;
  EXPECT_THAT(Pairs().BestLinked(candidates, 2), IsEmpty());
  EXPECT_THAT(GpuLinks().Best(candidates, 2), IsEmpty());
}

}  // namespace
}  // namespace carma::core
