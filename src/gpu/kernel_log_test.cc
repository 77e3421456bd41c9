#include "gpu/kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KernelXid, ParsesTheDriversFormats) {
  const struct {
    const char* name;
    const char* line;
    KernelXid expect;
  } kCases[] = {
      {"580, open modules, an MPS client",
       "4,811,168790062,-;NVRM: Xid (PCI:0000:00:06): 31, pid=1668, name=python3, channel "
       "0x0000003f, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8",
       {"0000:00:06", 31, 1668}},
      {"no process",
       "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
       {"0000:3b:00", 79, std::nullopt}},
      {"a word instead of a number",
       "NVRM: Xid (PCI:0000:10:1c): 63, pid='<unknown>', name=<unknown>, Row",
       {"0000:10:1c", 63, std::nullopt}},
      {"a channel",
       "4,9,91,c,caller=T7;NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000008, intr 10000000",
       {"0000:3b:00", 31, std::nullopt}},
      {"an instance",
       "NVRM: Xid (PCI:000a:07:00 GPU-I:05): 13, pid=7, name=x",
       {"000a:07:00", 13, 7}},
  };
  for (const auto& each : kCases) EXPECT_EQ(ParseKernelXid(each.line), each.expect) << each.name;
}

TEST(KernelXid, IgnoresOtherLines) {
  for (const char* line :
       {"", "NVRM: Xid", "NVRM: Xid (PCI:", "NVRM: Xid (PCI:0000:00:06)", "NVRM: Xid (PCI:0:0): 31",
        "NVRM: Xid (PCI:0000:00:06): pid=3", "NVRM: Xid (PCI:0000:00:06): -4, pid=3",
        "6,5,4,-;mine: NVRM: Xid (PCI:0000:00:06): 31, pid=3, name=forged",
        "6,5,4,-;mine;NVRM: Xid (PCI:0000:00:06): 31, pid=3, name=forged",
        "NVRM: Xid (PCI:zz:00:06): 31, pid=3", "NVRM: GPU 0000:00:06.0: RmInitAdapter failed!"})
    EXPECT_FALSE(ParseKernelXid(line)) << line;
}

TEST(KernelXid, ComparesAddressesAsNumbers) {
  EXPECT_TRUE(IsSamePlace("00000000:00:06.0", "0000:00:06"));
  EXPECT_TRUE(IsSamePlace("0000000A:C1:00.0", "000a:c1:00"));
  EXPECT_FALSE(IsSamePlace("00000000:07:00.0", "0000:00:07"));
  EXPECT_FALSE(IsSamePlace("", ""));
}

class KernelLogTest : public ::testing::Test {
 protected:
  void SetUp() override { Append("NVRM: Xid (PCI:0000:00:06): 31, pid=1, name=before\n"); }
  void TearDown() override { std::filesystem::remove(path_); }
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_ = ::testing::TempDir() + "kernel_log." + std::to_string(::getpid());
};

TEST_F(KernelLogTest, ReturnsOnlyNewLines) {
  Result<KernelLog> log = KernelLog::Open(path_);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_THAT(log->Read(), IsEmpty());
  Append(
      "something else\nNVRM: Xid (PCI:0000:00:06): 31, pid=7, name=a\n SUBSYSTEM=pci\nNVRM: Xid ");
  EXPECT_THAT(log->Read(), ElementsAre(KernelXid{"0000:00:06", 31, 7}));
  Append("(PCI:0000:00:06): 13, pid=8\n");
  EXPECT_THAT(log->Read(), ElementsAre(KernelXid{"0000:00:06", 13, 8})) << "a line in two parts";
  Append(std::string(100'000, 'x') + "\nNVRM: Xid (PCI:0000:00:06): 43, pid=9\n");
  EXPECT_THAT(log->Read(), ElementsAre(KernelXid{"0000:00:06", 43, 9})) << "after an endless line";
}

TEST_F(KernelLogTest, ReportsAnUnreadableLog) {
  EXPECT_FALSE(KernelLog::Open(path_ + "/no"));
}

}  // namespace
}  // namespace carma::gpu
