#include "lab/verbs/profile/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"

namespace carma::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

gpu::DeviceInfo Whole(const std::string& uuid) {
  return {.uuid = uuid, .name = "NVIDIA A100", .total_mib = 40'960};
}
gpu::DeviceInfo Instance(const std::string& uuid, const std::string& profile) {
  return {.uuid = uuid,
          .name = "NVIDIA A100 MIG " + profile,
          .mig = gpu::MigPlace{.parent_uuid = "GPU-m", .profile_name = profile}};
}

TEST(Lanes, AreWholeGpusAndTheInstancesOfOneType) {
  const std::vector<gpu::DeviceInfo> devices{Whole("GPU-a"), Instance("MIG-1", "3g.20gb"),
                                             Instance("MIG-2", "3g.20gb"),
                                             Instance("MIG-3", "1g.5gb"), Whole("GPU-b")};
  const auto lanes = LanesOf(devices, {});
  ASSERT_TRUE(lanes) << lanes.error().message;
  ASSERT_THAT(*lanes, SizeIs(4));
  EXPECT_THAT((*lanes)[1].uuids, ElementsAre("MIG-1", "MIG-2"));
  EXPECT_EQ((*lanes)[1].board, "GPU-m");
  EXPECT_EQ((*lanes)[2].board, "GPU-m");
  const std::vector<ProfiledType> types = TypesOf(*lanes);
  ASSERT_THAT(types, SizeIs(3));
  EXPECT_EQ(types[0].instances, 0);
  EXPECT_EQ(types[1].instances, 2);
  const auto chosen = LanesOf(devices, std::vector<std::size_t>{4});
  ASSERT_TRUE(chosen);
  EXPECT_THAT((*chosen)[0].uuids, ElementsAre("GPU-b"));
  const auto twice = LanesOf(devices, std::vector<std::size_t>{1, 4, 1, 4});
  ASSERT_TRUE(twice);
  ASSERT_THAT(*twice, SizeIs(2));
  EXPECT_THAT((*twice)[0].uuids, ElementsAre("MIG-1"));
}

TEST(Lanes, LeaveOutFaultyGpusUnlessTheyAreNamed) {
  std::vector<gpu::DeviceInfo> devices{Whole("GPU-a"), Whole("GPU-b")};
  devices[0].trouble.text = "it is lost";
  EXPECT_THAT(LanesOf(devices, {}).value(), SizeIs(1));
  const auto named = LanesOf(devices, std::vector<std::size_t>{0});
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, HasSubstr("it is lost"));
  EXPECT_FALSE(LanesOf(devices, std::vector<std::size_t>{2}));
  EXPECT_FALSE(LanesOf({}, {}));
}

TEST(ResultFolder, ContinuesAfterItsWholeLinesAndHasOneHolder) {
  std::string folder = "/tmp/carma-results-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const MeasuredRun run{.run = {ProfileMethod::kMps, "T4", {"a", "b"}, 1, std::nullopt},
                        .gpu = "GPU-a"};
  {
    auto results = ResultFolder::Open(folder);
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_TRUE(results->Add(run));
    const auto second = ResultFolder::Open(folder);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  }
  const std::string whole = base::ReadFile(folder + "/runs.jsonl", 1 << 20).value_or("");
  ASSERT_TRUE(base::WriteFileAtomic(folder + "/runs.jsonl", whole + "{\"method\":\"str"));
  auto again = ResultFolder::Open(folder);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_THAT(again->runs(), ElementsAre(run));
  ASSERT_TRUE(again->Add(run));
  EXPECT_EQ(base::ReadFile(folder + "/runs.jsonl", 1 << 20).value_or(""), whole + whole);
  EXPECT_EQ(again->Read("no such file"), std::string());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace carma::cli
