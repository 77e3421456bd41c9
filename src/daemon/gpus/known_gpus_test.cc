#include "daemon/gpus/known_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace carma::daemon {
namespace {

using gpu::DeviceInfo;

class KnownGpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-known-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
};

DeviceInfo Whole(const std::string& uuid, const std::string& pci) {
  return {.uuid = uuid,
          .name = "NVIDIA A100",
          .pci = pci,
          .total_mib = 40'960,
          .reserved_mib = 424,
          .reports_sm_activity = true};
}

DeviceInfo Instance(const std::string& uuid, const std::string& pci, int number) {
  DeviceInfo info = Whole(uuid, pci);
  info.total_mib = 19'968;
  info.mig = gpu::MigPlace{"GPU-b", number, 0, 9, "3g.20gb"};
  return info;
}

const std::vector<DeviceInfo> kServer = {
    Whole("GPU-a", "00000000:07:00.0"), Instance("MIG-1", "00000000:0F:00.0", 1),
    Instance("MIG-2", "00000000:0F:00.0", 2), Whole("GPU-c", "00000000:47:00.0")};

// The entry for the instances of GPU-b that cannot be opened.
const DeviceInfo kUnopened = {.uuid = "MIG-unknown-1-0",
                              .mig = gpu::MigPlace{.parent_uuid = "GPU-b"},
                              .trouble = {"not permitted"}};

TEST_F(KnownGpusTest, AreReadBack) {
  EXPECT_TRUE(KnownGpus(dir_).empty());
  KeepKnownGpus(dir_, kServer);
  EXPECT_EQ(KnownGpus(dir_), kServer);
}

TEST_F(KnownGpusTest, ReadsTheFileOfAnEarlierVersion) {
  ASSERT_TRUE(base::WriteFileAtomic(dir_ + "/gpus.json",
                                    R"([{"uuid":"GPU-a","name":"A","pci":"","total_mib":40960,)"
                                    R"("reserved_mib":424,"reports_sm_activity":false}])",
                                    0600));
  const std::vector<DeviceInfo> known = KnownGpus(dir_);
  ASSERT_EQ(known.size(), 1u);
  EXPECT_FALSE(known[0].mig);
  EXPECT_TRUE(known[0].trouble.empty());
}

TEST_F(KnownGpusTest, IgnoresADamagedFile) {
  for (const char* text : {"", "{}", "[", "[1]", R"([{"uuid":"GPU-a"}])",
                           R"([{"uuid":"GPU-a","total_mib":9,"mig":{"gpu_instance":-1}}])"}) {
    ASSERT_TRUE(base::WriteFileAtomic(dir_ + "/gpus.json", text, 0600));
    EXPECT_TRUE(KnownGpus(dir_).empty()) << text;
  }
}

TEST(Recognised, GpusInTroubleKeepTheirIdentity) {
  const DeviceInfo lost = {.uuid = "GPU-unknown-0", .trouble = {"GPU is lost"}};
  const struct {
    const char* name;
    std::size_t at;
    DeviceInfo now;
    std::string uuid;
  } cases[] = {
      {"by its number", 0, lost, "GPU-a"},
      {"by its address",
       3,
       {.uuid = "GPU-unknown-2", .pci = "00000000:47:00.0", .trouble = {"no UUID"}},
       "GPU-c"},
      {"by its UUID", 3, {.uuid = "GPU-c", .trouble = {"no memory"}}, "GPU-c"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<DeviceInfo> now = kServer;
    now[c.at] = c.now;
    DeviceInfo expected = kServer[c.at];
    expected.trouble = c.now.trouble;
    const std::vector<DeviceInfo> recognised = Recognised(now, kServer);
    EXPECT_EQ(recognised[c.at], expected);
    EXPECT_EQ(recognised[1], kServer[1]);
  }
}

TEST_F(KnownGpusTest, TheInstancesOfAGpuInTroubleKeepTheirIdentity) {
  KeepKnownGpus(dir_, kServer);
  const DeviceInfo lost = {.uuid = "GPU-unknown-2", .trouble = {"GPU is lost"}};
  const struct {
    const char* name;
    std::vector<DeviceInfo> now;
    std::vector<std::string> troubles;  // of the recognised devices
  } cases[] = {
      {"by its number",
       {kServer[0], {.uuid = "GPU-unknown-1", .trouble = {"hangs"}}, lost},
       {"", "hangs", "hangs", "GPU is lost"}},
      {"by its address",
       {kServer[0],
        {.uuid = "GPU-unknown-1", .pci = "00000000:0F:00.0", .trouble = {"no UUID"}},
        kServer[3]},
       {"", "no UUID", "no UUID", ""}},
      {"by its UUID",
       {kServer[0], {.uuid = "GPU-b", .trouble = {"no list"}}, kServer[3]},
       {"", "no list", "no list", ""}},
      {"a single instance",
       {kServer[0], kServer[1], kUnopened, kServer[3]},
       {"", "", "not permitted", ""}},
      {"all instances",
       {kServer[0], kUnopened, kServer[3]},
       {"", "not permitted", "not permitted", ""}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<DeviceInfo> expected = kServer;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i].trouble.text = c.troubles[i];
    EXPECT_EQ(Recognised(c.now, kServer), expected);
    KeepKnownGpus(dir_, c.now);
    EXPECT_EQ(KnownGpus(dir_), kServer);
  }
}

TEST(Recognised, DoesNotGuessInDoubt) {
  const DeviceInfo lost = {.uuid = "GPU-unknown-0", .trouble = {"GPU is lost"}};
  const DeviceInfo divided = {.uuid = "GPU-b",
                              .pci = "00000000:0F:00.0",
                              .trouble = {"no instances", gpu::TroubleCause::kNoInstance}};
  // The first list is missing GPUs, the second is in a different order, the third has a GPU without
  // its MIG instances, and the fourth has a new instance.
  const std::vector<DeviceInfo> lists[] = {
      {lost, kServer[1]},
      {lost, kServer[3], kServer[1], kServer[2]},
      {kServer[0], divided, kServer[3]},
      {kServer[0], Instance("MIG-3", "00000000:0F:00.0", 3), kUnopened, kServer[3]},
  };
  for (const std::vector<DeviceInfo>& list : lists) EXPECT_EQ(Recognised(list, kServer), list);
}

TEST_F(KnownGpusTest, AGpuWithoutUsableInstancesIsNoLongerAWholeGpu) {
  for (const auto cause : {gpu::TroubleCause::kNoInstance, gpu::TroubleCause::kHiddenInstances}) {
    KeepKnownGpus(dir_, kServer);
    std::vector<DeviceInfo> now = kServer;
    now[3] = {.uuid = "GPU-c",
              .name = "NVIDIA A100",
              .pci = "00000000:47:00.0",
              .trouble = {"no instances", cause, "GPU-c"}};
    EXPECT_EQ(Recognised(now, kServer), now);
    KeepKnownGpus(dir_, now);
    EXPECT_EQ(KnownGpus(dir_), now);
  }
}

TEST(Recognised, InstancesThatCannotBeOpenedNowKeepTheirIdentity) {
  const gpu::DeviceTrouble hidden = {"not permitted", gpu::TroubleCause::kHiddenInstances, "GPU-b"};
  std::vector<DeviceInfo> expected = kServer;
  expected[1].trouble = expected[2].trouble = hidden;
  EXPECT_EQ(Recognised({kServer[0], {.uuid = "GPU-b", .trouble = hidden}, kServer[3]}, kServer),
            expected);
}

TEST_F(KnownGpusTest, AGpuIsMissingOnlyIfNoPartOfItIsListed) {
  EXPECT_THAT(NoLongerListed(kServer, kServer), testing::IsEmpty());
  EXPECT_THAT(NoLongerListed(kServer, {kServer[0], kServer[1], kServer[2]}),
              testing::ElementsAre("GPU-c (NVIDIA A100 at 00000000:47:00.0)"));
  const DeviceInfo whole_again = Whole("GPU-b", "00000000:0F:00.0");
  EXPECT_THAT(NoLongerListed(kServer, {kServer[0], whole_again, kServer[3]}), testing::IsEmpty());
  const DeviceInfo lost = {.uuid = "GPU-unknown-0", .trouble = {"GPU is lost"}};
  EXPECT_THAT(NoLongerListed(kServer, {lost, kServer[1], kServer[2]}), testing::IsEmpty());
}

TEST_F(KnownGpusTest, AGpuInTroubleKeepsItsDescription) {
  KeepKnownGpus(dir_, kServer);
  std::vector<DeviceInfo> now = kServer;
  now[0] = {.uuid = "GPU-unknown-0", .trouble = {"GPU is lost"}};
  KeepKnownGpus(dir_, now);
  EXPECT_EQ(KnownGpus(dir_), kServer);
  const std::vector<DeviceInfo> not_recognised = {now[0]};
  KeepKnownGpus(dir_, not_recognised);
  EXPECT_EQ(KnownGpus(dir_), kServer) << "it may be one of these";
  std::filesystem::remove(dir_ + "/gpus.json");
  KeepKnownGpus(dir_, not_recognised);
  EXPECT_EQ(KnownGpus(dir_), not_recognised);
}

}  // namespace
}  // namespace carma::daemon
