#include "gpu/own_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// GPU 1 is a MIG GPU.
std::vector<DeviceInfo> Server() {
  std::vector<DeviceInfo> devices(5);
  devices[0].uuid = "GPU-aa11";
  devices[1].uuid = "MIG-b1";
  devices[1].mig = MigPlace{.parent_uuid = "GPU-bb"};
  devices[2].uuid = "MIG-b2";
  devices[2].mig = MigPlace{.parent_uuid = "GPU-bb"};
  devices[3].uuid = "GPU-aa22";
  devices[4].uuid = "GPU-cc33";
  return devices;
}

std::vector<std::string> Uuids(const std::vector<std::string>& names) {
  std::vector<std::string> uuids;
  for (const DeviceInfo& device : OnlyNamed(Server(), names).devices) uuids.push_back(device.uuid);
  return uuids;
}

TEST(OwnDevices, AreSelectedByGpuNumberOrUuid) {
  EXPECT_THAT(Uuids({"0"}), ElementsAre("GPU-aa11"));
  EXPECT_THAT(Uuids({"1"}), ElementsAre("MIG-b1", "MIG-b2"));
  EXPECT_THAT(Uuids({"3", "2"}), ElementsAre("GPU-aa22", "GPU-cc33")) << "in the list's order";
  EXPECT_THAT(Uuids({"MIG-b2"}), ElementsAre("MIG-b2"));
  EXPECT_THAT(Uuids({"GPU-cc33", "GPU-cc"}), ElementsAre("GPU-cc33"));
  EXPECT_THAT(Uuids({"GPU-aa"}), ElementsAre("GPU-aa11", "GPU-aa22"));
}

TEST(OwnDevices, HaveTheirIndicesInTheWholeList) {
  EXPECT_THAT(OnlyNamed(Server(), std::vector<std::string>{"3", "MIG-b2"}).indices,
              ElementsAre(2, 4));
  EXPECT_THAT(OnlyNamed(Server(), {}).indices, ElementsAre(0, 1, 2, 3, 4));
}

TEST(OwnDevices, ReportsNamesWithoutAMatch) {
  const OwnDevices own = OnlyNamed(Server(), std::vector<std::string>{"4", "0", "GPU-dd"});
  EXPECT_EQ(own.devices.size(), 1U);
  EXPECT_THAT(own.indices, ElementsAre(0));
  EXPECT_THAT(own.unknown, ElementsAre("4", "GPU-dd"));
  EXPECT_THAT(OnlyNamed({}, std::vector<std::string>{"0"}).devices, IsEmpty());
}

}  // namespace
}  // namespace carma::gpu
