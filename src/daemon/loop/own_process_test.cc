#include "daemon/loop/own_process.h"

#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

TEST(OwnProcess, ReadsAStatLineWithAnyProgramName) {
  const auto own = ReadStat(
      "4711 (a) b) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 12345 "
      "104857600 2048 18446744073709551615 1 1 0\n",
      100, 4096);
  ASSERT_TRUE(own);
  EXPECT_DOUBLE_EQ(own->cpu_s, 4);
  EXPECT_DOUBLE_EQ(own->started_s, 123.45);
  EXPECT_EQ(own->threads, 9);
  EXPECT_EQ(own->virtual_bytes, 104'857'600);
  EXPECT_EQ(own->resident_bytes, 2048 * 4096);
  EXPECT_FALSE(ReadStat("", 100, 4096));
  EXPECT_FALSE(ReadStat("4711 (a) S 1", 100, 4096));
}

TEST(OwnProcess, WritesMetricsOfThisProcess) {
  api::MetricsText out;
  WriteOwnProcess(out);
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_open_fds", "process_start_time_seconds"}) {
    EXPECT_NE(out.text().find(std::string("\n") + name + " "), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace carma::daemon
