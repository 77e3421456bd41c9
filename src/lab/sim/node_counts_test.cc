#include "lab/sim/node_counts.h"

#include <gtest/gtest.h>

namespace carma::sim {
namespace {

using base::Duration;
using base::Time;

constexpr Time kStart{Duration{0}};
Time At(int seconds) {
  return kStart + std::chrono::seconds(seconds);
}
CountAsked Asked(std::int64_t gib, int gpus = 1) {
  return {.gpus = gpus, .memory_mib = gib * 1024};
}

// A node with two GPUs of 39.6 GiB. One task of 16 GiB and one task of 24 GiB are booked on it.
NodeCounts TwoBooked(Gres gres) {
  NodeCounts counts(gres);
  counts.AddNode(std::vector<std::int64_t>{40'536, 40'536});
  counts.Book(0, 1, Asked(16), At(100));
  counts.Book(0, 2, Asked(24), At(200));
  return counts;
}

TEST(NodeCounts, ComparesRequestsWithFreeUnits) {
  struct Case {
    std::string_view name;
    Gres gres;
    CountAsked asked;
    bool fits;
  };
  const Case cases[] = {
      {"39 of the node's 79 GiB are left", Gres::kCarma, Asked(39), true},
      {"a request beyond a GPU's 39 GiB counts as 39", Gres::kCarma, Asked(48), true},
      {"a request for two GPUs counts twice", Gres::kCarma, Asked(20, 2), false},
      {"two GPUs fit if the sum does, although no GPU is empty", Gres::kCarma, Asked(19, 2), true},
      {"a task without a memory request gets all of its GPU's memory", Gres::kCarma, {}, true},
      {"both GPUs are taken", Gres::kGpu, Asked(1), false},
      {"15 GiB are left on one GPU, 23 GiB on the other", Gres::kShard, Asked(23), true},
      {"no GPU has 24 GiB left", Gres::kShard, Asked(24), false},
      {"a task on several GPUs requests whole ones", Gres::kShard, Asked(1, 2), false},
      {"the node is not empty", Gres::kCarma, {.gpus = 2, .whole = true}, false},
  };
  for (const Case& c : cases) EXPECT_EQ(TwoBooked(c.gres).Fits(0, c.asked), c.fits) << c.name;
}

TEST(NodeCounts, ShardsUseTheFirstGpuWithEnoughLeft) {
  NodeCounts counts(Gres::kShard);
  counts.AddNode(std::vector<std::int64_t>(4, 40'536));
  std::vector<std::uint32_t> chosen;
  for (std::uint64_t task = 1; task <= 6; ++task)
    chosen.push_back(counts.Book(0, task, Asked(16), At(100)).front());
  EXPECT_EQ(chosen, (std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(counts.GpusBooked(0), 6);
}

TEST(NodeCounts, ReleasedGpusFitAgain) {
  NodeCounts counts = TwoBooked(Gres::kCarma);
  EXPECT_FALSE(counts.Fits(0, Asked(20, 2)));
  counts.Release(0, 2);
  EXPECT_TRUE(counts.Fits(0, Asked(20, 2)));
  counts.Release(0, 1);
  EXPECT_TRUE(counts.Empty(0));
  EXPECT_TRUE(counts.Fits(0, {.gpus = 2, .whole = true}));
  EXPECT_EQ(counts.GpusBooked(0), 0);
}

TEST(NodeCounts, FindsWhenARequestFitsByTimeLimits) {
  const NodeCounts counts = TwoBooked(Gres::kCarma);
  EXPECT_EQ(counts.FitsFrom(0, Asked(39), At(10)), At(10));
  EXPECT_EQ(counts.FitsFrom(0, Asked(25, 2), At(10)), At(100));
  EXPECT_EQ(counts.FitsFrom(0, Asked(39, 2), At(10)), At(200));
  EXPECT_EQ(counts.FitsFrom(0, {.gpus = 2, .whole = true}, At(10)), At(200));
  // A task that is past its time limit can end at any moment.
  EXPECT_EQ(counts.FitsFrom(0, Asked(25, 2), At(150)), At(150));
  EXPECT_EQ(counts.FitsFrom(0, Asked(1, 3), At(10)), At(10));
}

TEST(NodeCounts, FitsBesideALongerTask) {
  const NodeCounts counts = TwoBooked(Gres::kCarma);
  // The first task has ended by 100 s, and then 55 of 79 GiB are free.
  EXPECT_TRUE(counts.FitsBeside(0, Asked(25, 2), At(100), Asked(5)));
  EXPECT_FALSE(counts.FitsBeside(0, Asked(25, 2), At(100), Asked(6)));
  // The longer task does not fit now.
  EXPECT_FALSE(counts.FitsBeside(0, Asked(1), At(100), Asked(30, 2)));
}

}  // namespace
}  // namespace carma::sim
