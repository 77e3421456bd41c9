#include "gpu/steady_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A driver whose list changes. The used memory in a reading identifies the GPU.
class ChangingProbe : public Probe {
 public:
  explicit ChangingProbe(std::vector<DeviceInfo> first) : list(std::move(first)) {}
  ReadResult<std::vector<DeviceInfo>> Devices() override {
    ++lists;
    lost = -1;
    changed = false;
    if (list.empty()) return Unavailable("no driver");
    return list;
  }
  ReadResult<Reading> Read(std::size_t device, base::Time now) override {
    if (changed) return Conflict("the list has changed");
    if (!list.at(device).trouble.empty() || lost == static_cast<int>(device))
      return NotFound(list[device].trouble.text);
    return Reading{.taken = now, .used_mib = list[device].reserved_mib};
  }
  void LeaveAlone(const std::set<std::size_t>& devices) override { alone = devices; }
  std::vector<DeviceInfo> list;
  int lists = 0;
  int lost = -1;         // number of a lost GPU, until the next list
  bool changed = false;  // no reading succeeds until the next list
  std::set<std::size_t> alone;
};

DeviceInfo Device(const std::string& uuid, std::int64_t mark) {
  return {.uuid = uuid, .name = "A100", .total_mib = 40'960, .reserved_mib = mark};
}
DeviceInfo Instance(const std::string& uuid, std::int64_t mark) {
  DeviceInfo device = Device(uuid, mark);
  device.mig = MigPlace{.parent_uuid = "GPU-b"};
  return device;
}
const DeviceInfo kA = Device("GPU-a", 1), kB = Device("GPU-b", 2), kC = Device("GPU-c", 3);
const DeviceInfo kFirst = Instance("MIG-1", 4), kSecond = Instance("MIG-2", 5);

class SteadyProbeTest : public ::testing::Test {
 protected:
  SteadyProbeTest() {
    auto changing = std::make_unique<ChangingProbe>(std::vector<DeviceInfo>{kA, kB, kC});
    driver_ = changing.get();
    probe_ = std::make_unique<SteadyProbe>(std::move(changing));
  }
  std::int64_t Mark(std::size_t device) {
    const auto reading = probe_->Read(device, now_);
    EXPECT_TRUE(reading) << reading.error().message;
    return reading ? reading->used_mib : -1;
  }
  ErrorCode Refusal(std::size_t device) {
    const auto reading = probe_->Read(device, now_);
    EXPECT_FALSE(reading);
    return reading ? ErrorCode::kInvalid : reading.error().code;
  }
  ChangingProbe* driver_ = nullptr;
  std::unique_ptr<SteadyProbe> probe_;
  base::Time now_ = base::FromMs(1'000'000);
};

TEST_F(SteadyProbeTest, NumbersStayWithTheirGpus) {
  EXPECT_EQ(*probe_->Devices(), (std::vector<DeviceInfo>{kA, kB, kC}));
  driver_->list = {kC, Device("GPU-new", 9), kA};
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0], kA);
  EXPECT_THAT((*devices)[1].trouble.text, HasSubstr("no longer lists it"));
  EXPECT_EQ((*devices)[2], kC);
  EXPECT_EQ(Mark(0), 1);
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  EXPECT_EQ(Mark(2), 3);
  EXPECT_EQ(Refusal(3), ErrorCode::kNotFound);
}

TEST_F(SteadyProbeTest, ReplacesTheTroubleOfAGpuThatIsNoLongerListed) {
  driver_->list[1] = {.uuid = "GPU-b", .trouble = {"hangs", TroubleCause::kHangs, "GPU-b"}};
  ASSERT_TRUE(probe_->Devices());
  driver_->list = {kA, kC};
  EXPECT_EQ((*probe_->Devices())[1].trouble, DeviceTrouble{"the driver no longer lists it"});
}

TEST_F(SteadyProbeTest, AGpuIsNotLostWhileTheDriverListsAnUnidentifiedOne) {
  probe_->Keep({kA, kB});
  driver_->list = {kA, {.uuid = "GPU-unknown-1", .trouble = {"hangs"}}, kC};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Mark(0), 1);
  EXPECT_EQ(Refusal(1), ErrorCode::kUnavailable);
  driver_->list = {kA, {.uuid = "GPU-unknown-1", .pci = "0:2", .trouble = {"no UUID"}}, kC};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound) << "a GPU with this address would be recognised";
  driver_->list = {kA, kB, kC};
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 2);
}

TEST_F(SteadyProbeTest, LooksForAMissingGpuPeriodically) {
  ASSERT_TRUE(probe_->Devices());
  driver_->list = {kA, kC};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  driver_->list = {kA, kB, kC};
  EXPECT_EQ(driver_->lists, 2);
  now_ += kLookAgainSpan - base::Duration(1);
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  EXPECT_EQ(driver_->lists, 2) << "too early";
  now_ += base::Duration(1);
  EXPECT_EQ(Mark(1), 2);
  EXPECT_EQ(driver_->lists, 3);
  now_ += kLookAgainSpan;
  for (const std::size_t device : {0, 1, 2}) EXPECT_EQ(Mark(device), static_cast<int>(device) + 1);
  EXPECT_EQ(driver_->lists, 3) << "nothing is missing";
}

TEST_F(SteadyProbeTest, RecognisesAGpuAfterItsTrouble) {
  driver_->list[1] = {.uuid = "GPU-b", .trouble = {"its memory is not reported"}};
  EXPECT_EQ((*probe_->Devices())[1].trouble.text, "its memory is not reported");
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  driver_->list[1] = kB;
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 2);
  EXPECT_EQ((*probe_->Devices())[1], kB);
  driver_->list[1] = {.uuid = "GPU-b", .trouble = {"lost"}};
  const DeviceInfo later = (*probe_->Devices())[1];
  EXPECT_EQ(later.total_mib, kB.total_mib) << "the known facts are kept";
  EXPECT_EQ(later.trouble.text, "lost");
}

TEST_F(SteadyProbeTest, LooksForALostGpuWithARestartedLibrary) {
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Mark(1), 2);
  driver_->lost = 1;
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 2);
  EXPECT_EQ(driver_->lists, 2);
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 2);
  EXPECT_EQ(driver_->lists, 2);
}

TEST_F(SteadyProbeTest, KeepsGpusIfANewListFails) {
  driver_->list[1].trouble = {"lost"};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Mark(0), 1);
  driver_->list.clear();
  now_ += kLookAgainSpan;
  EXPECT_EQ(Refusal(1), ErrorCode::kUnavailable);
  EXPECT_EQ(Refusal(0), ErrorCode::kUnavailable) << "the driver's numbers mean nothing now";
  EXPECT_FALSE(probe_->Devices());
  driver_->list = {kB, kA, kC};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Mark(0), 1);
  EXPECT_EQ(Mark(1), 2);
}

TEST_F(SteadyProbeTest, KeepsAnEarlierList) {
  probe_->Keep({kC, kA});
  EXPECT_EQ(Refusal(0), ErrorCode::kUnavailable) << "the driver has not answered yet";
  EXPECT_EQ(*probe_->Devices(), (std::vector<DeviceInfo>{kC, kA}));
  EXPECT_EQ(Mark(0), 3);
  EXPECT_EQ(Mark(1), 1);
}

TEST_F(SteadyProbeTest, KeepsARecognisedGpu) {
  driver_->list[1] = {.uuid = "GPU-unknown-1", .trouble = {"lost"}};
  ASSERT_TRUE(probe_->Devices());
  DeviceInfo recognised = kB;
  recognised.trouble = {"lost"};
  probe_->Keep({kA, recognised, kC});
  EXPECT_EQ(Mark(0), 1);
  EXPECT_EQ(Refusal(1), ErrorCode::kNotFound);
  EXPECT_EQ(Mark(2), 3);
  driver_->list[1] = kB;
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 2);
}

TEST_F(SteadyProbeTest, KeepsTheInstancesOfAGpuThatCannotBeDescribed) {
  driver_->list[1] = {.uuid = "GPU-unknown-1", .trouble = {"hangs"}};
  driver_->list[2] = {.uuid = "GPU-unknown-2", .trouble = {"lost"}};
  ASSERT_TRUE(probe_->Devices());
  probe_->Keep({kA, kFirst, kSecond, kC});
  const std::vector<DeviceInfo> devices = probe_->Devices().value();
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[1].trouble.text, "hangs");
  EXPECT_EQ(devices[2].trouble.text, "hangs");
  EXPECT_EQ(devices[3].trouble.text, "lost");
  EXPECT_EQ(Mark(0), 1);
  for (const std::size_t device : {1U, 2U, 3U}) EXPECT_EQ(Refusal(device), ErrorCode::kNotFound);
  probe_->LeaveAlone({1});
  EXPECT_THAT(driver_->alone, IsEmpty()) << "its other instance is wanted";
  probe_->LeaveAlone({1, 2});
  EXPECT_EQ(driver_->alone, std::set<std::size_t>{1});
  driver_->list = {kA, kFirst, kSecond, kC};
  now_ += kLookAgainSpan;
  EXPECT_EQ(Mark(1), 4);
  EXPECT_EQ(Mark(2), 5);
  EXPECT_EQ(Mark(3), 3);
}

TEST_F(SteadyProbeTest, RequestsANewListIfTheDriversListHasChanged) {
  ASSERT_TRUE(probe_->Devices());
  driver_->list = {kC, kA, kB};
  driver_->changed = true;
  EXPECT_EQ(Mark(1), 2);
  EXPECT_EQ(Mark(2), 3);
  EXPECT_EQ(driver_->lists, 2);
}

}  // namespace
}  // namespace carma::gpu
